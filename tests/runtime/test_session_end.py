"""Behaviour of ending what is left of a session, with real processes."""

import dataclasses
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
import trio

from pi_workflows.protocol.template import MARKER_VARIABLE
from runtime import process_table, session_end
from runtime.errors import ProcessesSurvived
from runtime.identity import Liveness, ProcessIdentity, identity_of, is_alive, signal_exactly
from runtime.process_state import ProcessState
from runtime.session_end import end_session

MARKER = "child-19aa"
MARKED = f"{MARKER_VARIABLE}={MARKER}"


@dataclass
class Session:
    """A leader that waits, and what it has started.

    Attributes:
        members: in the order of their scripts.
    """

    process: "subprocess.Popen[str]"
    leader: ProcessIdentity
    members: list[ProcessIdentity]

    def kill_leader(self, *, reap: bool) -> None:
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | (0 if reap else os.WNOWAIT))
        if reap:
            self.process.wait()

    def living(self) -> list[ProcessIdentity]:
        return [member for member in self.members if is_alive(member) is Liveness.ALIVE]


Started = Callable[..., Session]


@pytest.fixture
def started() -> Iterator[Started]:
    """Start a session: `env` and its arguments for each member, in a group of its own."""
    with ExitStack() as stack:

        def start(*members: str) -> Session:
            script = "".join(f"env {member} & echo $!; " for member in members) + "read _"
            process = stack.enter_context(
                subprocess.Popen(
                    ["/bin/sh", "-mc", script],
                    env={"PATH": os.environ["PATH"]},
                    start_new_session=True,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            pids = [int(process.stdout.readline()) for _ in members]
            session = Session(process, _identity(process.pid), [_identity(pid) for pid in pids])
            for member in session.members:
                stack.callback(_kill, member)
            return session

        yield start


def _identity(pid: int) -> ProcessIdentity:
    identity = identity_of(pid)
    assert identity is not None
    return identity


def _kill(member: ProcessIdentity) -> None:
    if is_alive(member) is Liveness.ALIVE:
        os.kill(member.pid, signal.SIGKILL)


async def _marked_in_time(member: ProcessIdentity) -> None:
    with trio.fail_after(120):
        while not process_table.started_with(member.pid, MARKER_VARIABLE, MARKER):
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("state", ["alive", "zombie"])
async def test_while_its_leader_is_unreaped_all_of_a_session_is_ours(
    started: Started, state: str
) -> None:
    session = started("-i sleep 300", f"{MARKED} sleep 300")
    if state == "zombie":
        session.kill_leader(reap=False)
    with trio.fail_after(120):
        await end_session(session.leader, MARKER)
    assert session.living() == []
    assert identity_of(session.leader.pid) == session.leader
    assert (is_alive(session.leader) is Liveness.ALIVE) is (state == "alive")


async def test_of_a_leader_that_is_gone_nothing_unmarked_is_ours(started: Started) -> None:
    session = started("-i sleep 300", f"{MARKER_VARIABLE}=child-19a sleep 300")
    session.kill_leader(reap=True)
    with trio.fail_after(120):
        await end_session(session.leader, MARKER)
    assert session.living() == session.members


async def test_one_marked_member_keeps_the_number_and_so_proves_the_others(
    started: Started,
) -> None:
    session = started("-i sleep 300", f"{MARKED} sleep 300")
    await _marked_in_time(session.members[1])
    session.kill_leader(reap=True)
    with trio.fail_after(120):
        await end_session(session.leader, MARKER)
    assert session.living() == []


async def test_marked_process_of_another_session_is_not_ours_and_proves_nothing(
    started: Started,
) -> None:
    other = started(f"{MARKED} sleep 300")
    await _marked_in_time(other.members[0])
    session = started("-i sleep 300")
    session.kill_leader(reap=True)
    with trio.fail_after(120):
        await end_session(session.leader, MARKER)
    assert session.living() + other.living() == session.members + other.members


async def test_session_of_a_later_process_with_the_leaders_id_is_a_strangers(
    started: Started,
) -> None:
    session = started("-i sleep 300")
    head, _, ticks = session.leader.start_identity.rpartition(":")
    earlier = dataclasses.replace(session.leader, start_identity=f"{head}:{int(ticks) - 1}")
    with trio.fail_after(120):
        await end_session(earlier, MARKER)
    assert session.living() == session.members
    assert is_alive(session.leader) is Liveness.ALIVE


async def test_elsewhere_only_the_marked_processes_are_ours(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = started("-i sleep 300", f"{MARKED} sleep 300")
    await _marked_in_time(session.members[1])
    monkeypatch.setattr(sys, "platform", "darwin")
    with trio.fail_after(120):
        await end_session(session.leader, MARKER)
    assert session.living() == session.members[:1]


async def test_process_in_the_middle_of_exec_is_looked_at_again(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = started("-i sleep 300")
    session.kill_leader(reap=True)
    answers: list[bool | None] = [None, None, True]
    monkeypatch.setattr(process_table, "started_with", lambda *_: answers.pop(0))
    with trio.fail_after(120):
        await end_session(session.leader, MARKER)
    assert answers == []
    assert session.living() == []


async def test_lack_of_descriptors_only_delays_the_end(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = started("-i sleep 300")
    refusals = [OSError(errno.EMFILE, "too many open files")] * 2

    def scarce(session_id: int) -> list[ProcessState]:
        if refusals:
            raise refusals.pop()
        return session_members(session_id)

    session_members = process_table.session_members
    monkeypatch.setattr(process_table, "session_members", scarce)
    with trio.fail_after(120):
        await end_session(session.leader, MARKER)
    assert refusals == []
    assert session.living() == []


async def test_process_of_another_user_does_not_protect_the_rest(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = started("-i sleep 300", "-i sleep 300", "-i sleep 300")
    protected = session.members[1]

    def refuse(identity: ProcessIdentity, sig: signal.Signals) -> bool:
        if identity == protected:
            raise PermissionError(errno.EPERM, "not permitted")
        return signal_exactly(identity, sig)

    monkeypatch.setattr(session_end, "signal_exactly", refuse)
    with trio.fail_after(120), pytest.raises(ProcessesSurvived, match=f": {protected.pid}$"):
        await end_session(session.leader, MARKER, within_s=0.2)
    assert session.living() == [protected]


async def test_wait_for_what_does_not_end_is_bounded(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = started("-i sleep 300")
    session.kill_leader(reap=True)
    monkeypatch.setattr(process_table, "started_with", lambda *_: None)
    with trio.fail_after(120), pytest.raises(ProcessesSurvived, match=str(session.leader.pid)):
        await end_session(session.leader, MARKER, within_s=0.01)
    assert session.living() == session.members


@pytest.mark.parametrize("environment", [{}, {MARKER_VARIABLE: MARKER}])
def test_marker_is_seen_in_the_very_first_environment(environment: dict[str, str]) -> None:
    for _ in range(50):
        with subprocess.Popen(["/bin/sleep", "300"], env=environment) as process:
            answer = None
            while answer is None:
                answer = process_table.started_with(process.pid, MARKER_VARIABLE, MARKER)
            process.kill()
        assert answer is bool(environment)
