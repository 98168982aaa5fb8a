"""The composition example includes one child twice and hears by which exit it came back."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.examples.conftest import PlayExample


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes.txt"
    file.write_text("one \n\ttwo\nthree\t\n")
    return file


def test_both_mounts_repair_and_leave_by_the_same_exit(
    play_example: "PlayExample", notes: Path
) -> None:
    played = play_example("tidy_text", {"path": str(notes)})
    assert notes.read_text() == "one\n    two\nthree\n"
    assert played.output == {"ends": 2, "tabs": 1, "problem": None}
    assert played.nodes == [
        "find",
        *(
            f"{mount}{node}"
            for mount in ("ends", "tabs")
            for node in (
                "",
                "/look",
                "/mend",
                "/look",
                "/report",
                "/__piw_exit_fixed",
            )
        ),
        "report",
    ]


def test_what_cannot_be_repaired_leaves_by_the_other_exit(
    play_example: "PlayExample", notes: Path
) -> None:
    played = play_example("tidy_text", {"path": str(notes), "tab": "\t"})
    assert played.nodes.count("tabs/mend") == 3
    assert "tabs/__piw_exit_blocked" in played.nodes
    assert played.output == {"ends": 2, "tabs": None, "problem": "1 lines still match '\\\\t'"}


def test_a_tidy_file_is_left_alone(play_example: "PlayExample", notes: Path) -> None:
    notes.write_text("one\n")
    played = play_example("tidy_text", {"path": str(notes)})
    assert played.output == {"ends": 0, "tabs": 0, "problem": None}
    assert "ends/mend" not in played.nodes
