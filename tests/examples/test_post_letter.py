"""The example of an action that must not be repeated, as it goes when nobody is killed."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.examples.conftest import PlayExample

GIVEN = {"box": "letters.txt", "text": "hello", "office_seconds": 0}


def test_a_letter_is_put_into_the_box_once_and_confirmed(
    play_example: "PlayExample", tmp_path: Path
) -> None:
    played = play_example("post_letter", GIVEN)
    assert played.path == [("write", "ok"), ("post", "ok"), ("file_away", "ok")]
    assert played.end["finalOutput"] == "posted: Dear all, hello"
    assert (tmp_path / "letters.txt").read_text() == "Dear all, hello\n"
