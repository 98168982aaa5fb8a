"""What once broke a promise is explored again, decision for decision, and holds.

Each file of `regressions/` was kept by `pi-workflows chaos run`; `violation` says what broke then.
"""

from pathlib import Path
from typing import Final

import pytest

from pi_workflows.chaos.discovery import find
from pi_workflows.chaos.registry import engine
from runtime.chaos.replay_file import read_replay_file

FOLDER: Final = Path(__file__).parent / "regressions"
FILES: Final = sorted(FOLDER.glob("*.json"))


def test_the_folder_holds_replay_files_and_nothing_else() -> None:
    assert FILES
    assert sorted(FOLDER.iterdir()) == FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_once_broke_a_promise_holds(path: Path) -> None:
    file = read_replay_file(path)
    repeated = engine(file.engine).repeat(find(file.scenario, FOLDER), file.choices, file.seed)
    assert repeated.finding is None, repeated.finding
    assert not repeated.unused, "the scenario has changed: this file shows nothing any more"
    assert repeated.timeline
