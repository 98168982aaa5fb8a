"""Behaviour of ending what is left of a session, with real processes."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
import trio

from runtime import process_table
from runtime.errors import ProcessesSurvived
from runtime.session_end import MARKER_VARIABLE, end_session

MARKER = "child-19aa"


@pytest.fixture
def member() -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, MARKER_VARIABLE: MARKER}
    with subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True) as process:
        yield process
        process.kill()


async def test_only_session_and_marker_together_are_ours_to_end(
    member: "subprocess.Popen[bytes]",
) -> None:
    with trio.fail_after(5):
        await end_session(member.pid, "child-19a")
        await end_session(os.getsid(0), MARKER)
        assert member.poll() is None
        await end_session(member.pid, MARKER)
    assert member.wait() == -signal.SIGKILL


async def test_process_in_the_middle_of_exec_is_looked_at_again(
    member: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bool | None] = [None, None, True]
    monkeypatch.setattr(process_table, "started_with", lambda *_: answers.pop(0))
    with trio.fail_after(5):
        await end_session(member.pid, MARKER)
    assert answers == []
    assert member.wait() == -signal.SIGKILL


async def test_wait_for_what_does_not_end_is_bounded(
    member: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_table, "started_with", lambda *_: None)
    with trio.fail_after(5), pytest.raises(ProcessesSurvived, match=str(member.pid)):
        await end_session(member.pid, MARKER, within_s=0.01)
    assert member.poll() is None


@pytest.mark.parametrize("environment", [{}, {MARKER_VARIABLE: MARKER}])
def test_marker_is_seen_in_the_very_first_environment(environment: dict[str, str]) -> None:
    for _ in range(50):
        with subprocess.Popen(["/bin/sleep", "300"], env=environment) as process:
            answer = None
            while answer is None:
                answer = process_table.started_with(process.pid, MARKER_VARIABLE, MARKER)
            process.kill()
        assert answer is bool(environment)
