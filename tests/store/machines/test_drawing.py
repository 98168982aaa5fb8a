"""The page of the state machines is what the tables say."""

from typing import TYPE_CHECKING

import pytest

from tools import draw_state_machines
from tools.draw_state_machines import draw, machine_of, main, meanings, modules

if TYPE_CHECKING:
    from pathlib import Path


def test_page_is_fresh() -> None:
    """If this fails: `python tools/draw_state_machines.py`."""
    assert draw_state_machines.TARGET.read_text("utf-8") == draw()
    assert main(["--check"]) == 0


def test_every_state_of_every_machine_is_explained() -> None:
    """In the docstring of its module, once."""
    for module in modules():
        explained = [name for names, _ in meanings(module) for name in names]
        assert sorted(explained) == sorted(machine_of(module).states), module.__name__


def test_stale_page_is_noticed_and_drawn_anew(
    tmp_path: "Path", monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "state-machines.md"
    monkeypatch.setattr(draw_state_machines, "TARGET", page)
    assert main(["--check"]) == 1
    page.write_text("# Something else\n", encoding="utf-8")
    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
