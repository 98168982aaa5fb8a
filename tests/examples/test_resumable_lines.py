"""The example for crash tests writes each line once, whatever is there already."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.examples.conftest import PlayExample

GIVEN = {"path": "lines.txt", "lines": 3, "pause_seconds": 0}


def test_there_is_one_shell_step_per_line_and_a_report(
    play_example: "PlayExample", tmp_path: Path
) -> None:
    played = play_example("resumable_lines", GIVEN)
    assert played.nodes == ["append", "append", "append", "report"]
    assert played.output == {"lines": 3}
    assert (tmp_path / "lines.txt").read_text() == "line 1\nline 2\nline 3\n"


def test_a_line_that_is_there_is_not_written_again(
    play_example: "PlayExample", tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("line 1\nline 2\n")
    assert play_example("resumable_lines", GIVEN).output == {"lines": 3}
    assert (tmp_path / "lines.txt").read_text() == "line 1\nline 2\nline 3\n"


def test_a_file_that_cannot_be_written_fails_the_run_with_the_reason(
    play_example: "PlayExample",
) -> None:
    played = play_example("resumable_lines", {**GIVEN, "path": "absent/lines.txt"})
    assert played.path == [("append", "failed")]
    assert played.end["status"] == "failed"
    assert "absent/lines.txt" in str(played.end["error"])
