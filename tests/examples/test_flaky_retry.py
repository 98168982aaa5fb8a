"""The retry example routes failures and time-outs, and ends clearly either way."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.examples.conftest import PlayExample

GIVEN = {"counter": "tries", "pause_seconds": 0}
SETBACK = ["attempt", "judge", "back_off"]


def test_a_command_that_works_at_once_is_tried_once(play_example: "PlayExample") -> None:
    played = play_example("flaky_retry", {**GIVEN, "fails": 0})
    assert played.nodes == ["attempt", "succeed"]
    assert played.output == {"worked": True, "tries": 1, "text": "try 1: it works"}


def test_failures_are_tried_again_until_it_works(play_example: "PlayExample") -> None:
    played = play_example("flaky_retry", {**GIVEN, "fails": 2})
    assert played.nodes == [*SETBACK, *SETBACK, "attempt", "succeed"]
    assert [outcome for node, outcome in played.path if node == "attempt"] == [
        "failed",
        "failed",
        "ok",
    ]
    assert played.output["tries"] == 3


def test_a_time_out_is_a_setback_like_any_other(play_example: "PlayExample") -> None:
    played = play_example("flaky_retry", {**GIVEN, "fails": 0}, times_out={("attempt", 1)})
    assert played.path[0] == ("attempt", "timed_out")
    assert played.nodes == [*SETBACK, "attempt", "succeed"]


def test_it_gives_up_after_the_last_try_and_says_why(
    play_example: "PlayExample", tmp_path: Path
) -> None:
    played = play_example("flaky_retry", {**GIVEN, "fails": 9, "tries_max": 2})
    assert played.nodes == [*SETBACK, "attempt", "judge", "give_up"]
    assert played.output == {
        "worked": False,
        "tries": 2,
        "text": 'command "sh" exited with code 1: try 2: not today',
    }
    assert (tmp_path / "tries").read_text() == "2\n"


def test_the_most_patient_input_fits_into_the_step_limit(play_example: "PlayExample") -> None:
    timed_out = {("attempt", visit) for visit in range(1, 51)}
    played = play_example("flaky_retry", {**GIVEN, "tries_max": 50}, times_out=timed_out)
    assert played.output["tries"] == 50
