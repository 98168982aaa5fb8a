"""What a newcomer meets: the page says what is printed, and a mistake is answered in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke

PAGE: Final = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
HOLDS: Final = 'assert done == sorted(set(done)), f"ended under {done}"'

NEVER_CUT: Final = {f"  g{number}" for number in (1, 2)}


def shown(language: str, what: str) -> str:
    """Return the one block of the page that holds a text."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [block] = [each for each in blocks if what in each]
    return str(block)


@pytest.fixture
def breaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the page's scenario as the page breaks it, in the current folder."""
    found = re.search(
        r"This is what the scenario above says if it asks for `(.*)`:$", PAGE, re.MULTILINE
    )
    assert found is not None
    text = shown("python", 'me.sync("working")')
    assert HOLDS in text
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "jobs.py"
    file.write_text(text.replace(HOLDS, found[1]), encoding="utf-8")
    return file


def run(invoke: Invoke, columns: int | None = None) -> str:
    """Return what is printed of the break."""
    columns_said = None if columns is None else str(columns)
    arguments = ("chaos", "run", "jobs.py::one_at_a_time", "--all", "--jobs", "1")
    result = invoke(*arguments, environment={"COLUMNS": columns_said})
    assert result.exit_code == 1, result.stderr
    return result.stdout


def test_the_page_draws_what_is_printed(invoke: Invoke, breaking: Path) -> None:
    del breaking
    assert shown("text", "✗ one_at_a_time (orders) breaks generations_rise") in run(invoke)


@pytest.mark.parametrize("columns", [60, 150])
def test_a_drawing_is_as_wide_as_columns_says(
    invoke: Invoke, breaking: Path, columns: int
) -> None:
    del breaking
    lines = [line for line in run(invoke, columns).split("\n") if " s  " in line and "→" in line]
    assert lines
    assert max(map(len, lines)) <= columns
    assert all(
        any(generation in line for generation in NEVER_CUT) for line in lines if "write" in line
    )


def test_a_replay_file_works_from_every_folder(
    invoke: Invoke, breaking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(invoke)
    [kept] = (breaking.parent / "chaos-failures").iterdir()
    elsewhere = breaking.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    result = invoke("chaos", "replay", str(kept))
    assert result.exit_code == 1, result.stderr
    assert "ended 2 times" in result.stdout
    breaking.unlink()
    result = invoke("chaos", "replay", str(kept))
    assert result.exit_code == 2
    assert f"neither in the current folder, {elsewhere}, nor in {kept.parent}" in result.stderr


MISTAKES: Final = {
    'me.sync("working")': ('me.snc("working")', 13, "did you mean sync?"),
    "clock_jump=(31.0,)": ("clok_jump=(31.0,)", 16, "did you mean clock_jump?"),
    "@scenario()": ('@scenario(engines=("ordrs",))', 4, "did you mean orders?"),
    "look.events": ("look.evnts", 20, "did you mean events?"),
}


@pytest.mark.parametrize("mistaken", MISTAKES)
def test_a_mistake_is_exit_code_2_with_the_line_and_what_is_meant(
    invoke: Invoke, breaking: Path, mistaken: str
) -> None:
    wrong, line, meant = MISTAKES[mistaken]
    breaking.write_text(breaking.read_text(encoding="utf-8").replace(mistaken, wrong))
    result = invoke("chaos", "run", "jobs.py::one_at_a_time", "--jobs", "1")
    assert result.exit_code == 2
    assert f"jobs.py:{line}: " in result.stderr, result.stderr
    assert meant in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("run", "jobs.py::one_at_time"), "did you mean one_at_a_time?"),
        (("run", "jbos.py::one_at_a_time"), "did you mean jobs.py?"),
        (("run", "one_winer"), "did you mean one_winner"),
        (("run", "jobs.py", "--engine", "ordrs"), "did you mean orders?"),
        (("run", "jobs.py", "--engine", "warp"), "say orders, crash, procs, sim, all."),
        (("mutate", "no_claim_chek"), "did you mean no_claim_check?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_misspelt_name_is_answered_with_what_is_meant(
    invoke: Invoke, breaking: Path, arguments: tuple[str, ...], meant: str
) -> None:
    del breaking
    result = invoke("chaos", *arguments)
    assert result.exit_code == 2
    assert meant in result.stderr
