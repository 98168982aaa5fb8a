"""The monitor example waits by the built-in and hears by which exit it came back."""

import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.examples.conftest import PlayExample

REPORT = ".pi/reports/service-report.txt"
TURN = ["watch/check", "watch/report"]


@pytest.fixture(autouse=True)
def _passing_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four seconds pass between two looks at the clock."""
    passed = count(1_000, 4)
    monkeypatch.setattr(time, "time", lambda: float(next(passed)))


def test_a_service_that_is_ready_is_found_by_the_first_check(
    play_example: "PlayExample", tmp_path: Path
) -> None:
    (tmp_path / "service.ready").touch()
    played = play_example("await_service", {"name": "db"})
    assert played.output == {"ready": True, "checks": 1, "report": REPORT}
    assert played.nodes == [
        "prepare",
        "watch",
        "watch/begin",
        *TURN,
        "watch/met",
        "watch/__piw_exit_met",
        "report",
    ]
    said = (tmp_path / REPORT).read_text().splitlines()
    assert said == ["db: checked with `test -e service.ready`", "db is ready, after 1 checks"]


def test_it_is_checked_again_until_it_is_ready(
    play_example: "PlayExample", tmp_path: Path
) -> None:
    check = "echo >> tries; test $(wc -l < tries) -ge 3"
    played = play_example("await_service", {"check": check})
    assert (played.output["ready"], played.output["checks"]) == (True, 3)
    assert played.nodes.count("watch/pause/__piw_exit_waited") == 2
    assert [update["type"] for update in played.updates] == ["progress"] * 3
    assert (tmp_path / "tries").read_text() == "\n\n\n"


def test_it_gives_up_when_the_time_is_over_and_says_what_was_seen_last(
    play_example: "PlayExample", tmp_path: Path
) -> None:
    played = play_example("await_service", {"check": "exit 7", "within": 20})
    assert played.output["ready"] is False
    assert "is not ready (exit code 7)" in (tmp_path / REPORT).read_text()
