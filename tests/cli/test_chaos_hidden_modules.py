"""A file beside a scenario that hides an installed module is named, where it is to blame."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pi_workflows.chaos.shadowing import hidden_by

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke

SOURCE = '''
from pi_workflows.chaos.scene import Look, Me, Scene, scenario


@scenario()
def mine(s: Scene) -> None:
    """Two want one job."""
    job = s.resource("job")

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        await me.claim(job)

    @s.finally_
    def one_has_it(look: Look) -> None:
        assert len(look.acknowledged) == 1
'''


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    return file


def hides(file: Path, name: str) -> str:
    return f"{file.parent}/{name}.py hides the module '{name}' that is installed"


@pytest.mark.parametrize("text", ["x = 1\n", "raise RuntimeError\n"])
def test_a_file_that_hides_what_a_library_needs_is_named(
    invoke: "Invoke", file: Path, text: str
) -> None:
    (file.parent / "apsw.py").write_text(text)
    ran = invoke("chaos", "run", "mine.py", "--all", "--jobs", "1")
    assert ran.exit_code == 2
    assert hides(file, "apsw") in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_file_in_the_working_directory_hides_nothing_from_the_harness(
    invoke: "Invoke", file: Path
) -> None:
    (file.parent / "attr.py").write_text("x = 1\n")
    ran = invoke("chaos", "run", "mine.py", "--all", "--jobs", "1")
    assert ran.exit_code == 0, ran.stderr


def raised(statement: str) -> BaseException:
    try:
        exec(statement)  # noqa: S102 - what raises is a text of this module
    except (ImportError, AttributeError, ValueError) as error:
        return error
    raise AssertionError(statement)


def test_only_a_file_that_the_error_is_about_is_to_blame(file: Path) -> None:
    for name in ("trio", "json", "apsw", "own_module"):
        (file.parent / f"{name}.py").write_text("")
    folders = [str(file.parent)]
    for statement, blamed in (
        ("import trio; trio.nothing", "trio"),
        ("from json import nothing", "json"),
        ("import apsw.nothing", "apsw"),
    ):
        said = hidden_by(raised(statement), folders)
        assert said is not None
        assert hides(file, blamed) in said
        assert hidden_by(raised(statement), []) is None
    for statement in ("import own_module.nothing", "int('x')", "import click; click.nothing"):
        assert hidden_by(raised(statement), folders) is None
