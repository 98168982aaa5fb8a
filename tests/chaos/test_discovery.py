"""Scenarios and engines are found by name, and a name that leads nowhere is answered in words."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from pi_workflows.chaos import registry
from pi_workflows.chaos.discovery import ScenarioUnknown, find, find_all
from runtime.chaos.outcome import ScenarioRefused

SOURCE: Final = '''
"""Two scenarios."""

from pi_workflows.chaos.scene import Scene, scenario


@scenario()
def one_winner(s: Scene) -> None:
    """One gets it."""


@scenario()
def fenced(s: Scene) -> None:
    """Stale ones change nothing."""
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    return file


def complaint_about(ref: str) -> str:
    with pytest.raises(ScenarioUnknown) as unknown:
        find(ref)
    return str(unknown.value)


def test_a_scenario_of_a_file_is_found_and_knows_how_it_was_named(file: Path) -> None:
    found = find(f"{file}::one_winner")
    assert (found.name, found.ref) == ("one_winner", f"{file}::one_winner")
    assert found.place == f"{file}:7"


def test_a_file_alone_names_all_it_holds_in_their_order(file: Path) -> None:
    assert [scenario.name for scenario in find_all(str(file))] == ["one_winner", "fenced"]
    assert "holds 2 scenarios" in complaint_about(str(file))


def test_a_relative_file_is_also_looked_for_beside_another_one(file: Path) -> None:
    assert find("mine.py::fenced", file.parent).ref == "mine.py::fenced"
    assert "there is no file mine.py" in complaint_about("mine.py::fenced")


def test_a_relative_file_is_looked_for_here_first_and_then_upwards(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, deep = file.parent / "here", file.parent / "failures" / "deep"
    here.mkdir()
    deep.mkdir(parents=True)
    monkeypatch.chdir(here)
    assert find("mine.py::fenced", deep).place == f"{file}:12"
    (deep.parent / "mine.py").write_text(SOURCE)
    assert find("mine.py::fenced", deep).place == f"{deep.parent / 'mine.py'}:12"
    (here / "mine.py").write_text(SOURCE)
    assert find("mine.py::fenced", deep).place == "mine.py:12"


def test_a_relative_file_that_is_nowhere_is_told_with_both_places(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    with pytest.raises(ScenarioUnknown) as unknown:
        find("none.py::fenced", file.parent / "failures")
    said = str(unknown.value)
    assert f"neither in the current folder, {file.parent}, nor in {file.parent}/failures" in said
    with pytest.raises(ScenarioUnknown, match="nor in a folder above it") as unknown:
        find("none.py::fenced", file.parent)
    assert str(unknown.value).count(str(file.parent)) == 1


def test_a_misspelt_file_is_answered_with_the_nearest(file: Path) -> None:
    assert f"did you mean {file}?" in complaint_about(f"{file.parent}/mien.py::fenced")


def test_a_file_may_import_its_neighbour(file: Path) -> None:
    (file.parent / "neighbour_of_mine.py").write_text("NUMBER = 1\n")
    file.write_text(f"from neighbour_of_mine import NUMBER\n{SOURCE}")
    assert find(f"{file}::fenced").name == "fenced"


def test_a_misspelt_name_is_answered_with_the_nearest(file: Path) -> None:
    assert "did you mean one_winner?" in complaint_about(f"{file}::one_winer")
    assert "it has: one_winner, fenced." in complaint_about(f"{file}::zzz")
    assert "chaos list" in complaint_about("zzz")


def test_a_file_that_fails_is_blamed_with_its_line(file: Path) -> None:
    file.write_text("VALUE = 1\nVALUE.nothing()\n")
    assert f"{file}:2: AttributeError" in complaint_about(f"{file}::one_winner")
    file.write_text("VALUE = (\n")
    assert f"{file}:1: SyntaxError" in complaint_about(f"{file}::one_winner")
    file.write_text("raise SystemExit\n")
    assert f"{file}:1: SystemExit" in complaint_about(f"{file}::one_winner")


def test_what_holds_no_scenario_is_refused(file: Path) -> None:
    file.write_text("")
    assert "declares no scenario" in complaint_about(f"{file}::one_winner")
    assert "is a folder" in complaint_about(f"{file.parent}::one_winner")
    assert "there is no file" in complaint_about(f"{file.parent}/none.py::one_winner")


def test_every_installed_engine_can_be_made_and_knows_its_name() -> None:
    for name in registry.engine_names():
        assert registry.engine(name).name == name
    with pytest.raises(ScenarioRefused, match='there is no engine "warp"'):
        registry.engine("warp")


def test_every_shipped_scenario_tells_what_it_is_for() -> None:
    for name, scenario in registry.SCENARIOS.items():
        assert scenario.ref == scenario.name == name
        assert scenario.summary.endswith("."), scenario.place
        assert scenario.engines, scenario.place


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    script = (
        "import sys; import pi_workflows.chaos.registry as registry;"
        "registry.engine_names(); print(*(name for name in sys.modules if 'chaos' in name))"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not {
        word for word in process.stdout.split() if "scenarios" in word or "_engine" in word
    }
