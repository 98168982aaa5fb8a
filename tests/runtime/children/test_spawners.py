"""Behaviour of child processes, whichever way they are started, with real ones."""

import os
import signal
from pathlib import Path

import pytest
import trio
import trio.testing

from pi_workflows.protocol.template import MARKER_VARIABLE
from runtime import process_table, session_child
from runtime.child_environment import child_environment
from runtime.errors import ProcessesSurvived, SpawnFailed
from runtime.identity import Liveness, ProcessIdentity, identity_of, is_alive, signal_exactly
from runtime.process import ExitStatus, Spawner
from runtime.process_state import ProcessState
from tests.runtime.children.conftest import MARKER, script, shell, started


async def test_frames_travel_over_a_socket_pair_of_their_own(spawner: Spawner) -> None:
    code = """
        import os, socket, sys
        ours = socket.socket(fileno=fd)
        print("this is no frame")
        ours.sendall(ours.recv(100).upper())
    """
    async with started(spawner, script(code)) as child:
        await child.stream.send_all(b"hello\n")
        assert await child.stream.receive_some(100) == b"HELLO\n"
        assert await child.stream.receive_some(100) == b""
        assert await child.wait() == ExitStatus(0, None)
        assert child.output_tail() == "this is no frame\n"


async def test_child_leads_its_own_session_and_has_no_other_descriptor(spawner: Spawner) -> None:
    code = """
        import os, sys
        print(os.getpid() == os.getsid(0) == os.getpgid(0))
        print(os.fstat(0).st_rdev == os.stat("/dev/null").st_rdev)
        is_open = lambda number: os.path.exists(f"/proc/self/fd/{number}")
        print(set(filter(is_open, range(1_000))) == {0, 1, 2, fd})
        print(os.environ["PI_WORKFLOWS_CHILD"])
    """
    async with started(spawner, script(code)) as child:
        assert child.identity == identity_of(child.pid)
        await child.wait()
        assert child.output_tail() == f"True\nTrue\nTrue\n{MARKER}\n"


async def test_exit_is_reaped_and_recorded_once_for_everybody(spawner: Spawner) -> None:
    async with started(spawner, shell("exit 7")) as child:
        statuses: list[ExitStatus] = []

        async def wait() -> None:
            statuses.append(await child.wait())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(wait)
        assert statuses == [ExitStatus(7, None)] * 2
        assert identity_of(child.pid) is None
        assert await child.stop() == ExitStatus(7, None)


async def test_flooding_child_never_blocks_and_only_the_end_is_kept(spawner: Spawner) -> None:
    code = """
        import sys
        for number in range(20_000):
            sys.stdout.write(f"{number:0100d}\\n")
        sys.stderr.write("é" * 500 + "the end")
    """
    async with started(spawner, script(code, output_bytes_max=1_000)) as child:
        assert await child.wait() == ExitStatus(0, None)
        tail = child.output_tail()
        assert len(tail.encode()) <= 1_000
        assert tail.startswith("é")
        assert tail.endswith("ééthe end")


async def test_child_without_a_working_directory_is_a_fault_and_leaves_nothing(
    spawner: Spawner,
) -> None:
    before = _descriptors()
    with pytest.raises(SpawnFailed, match="/no/such/folder"):
        await spawner.spawn(script("", cwd="/no/such/folder"))
    assert _descriptors() == before


async def test_child_has_the_given_directory_and_environment_to_the_byte(
    spawner: Spawner, tmp_path: Path
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    code = """
        import os, sys
        print(os.getcwdb() == os.environb[b"FOLDER"])
        print(sorted(os.environ))
        print(os.umask(0), sys.argv[1:])
    """
    spec = script(code, cwd=str(folder), env={"FOLDER": str(folder)})
    async with started(spawner, spec) as child:
        await child.wait()
        umask = os.umask(0)
        os.umask(umask)
        names = sorted([*spec.env, "PI_WORKFLOWS_CHILD"])
        lines = child.output_tail().splitlines()
        assert lines[:2] == ["True", str(names)]
        assert lines[2].startswith(f"{umask} ['--fd', ")


async def test_child_and_all_it_starts_show_their_marker_from_the_first_moment(
    spawner: Spawner,
) -> None:
    code = """
        import os, subprocess
        forked = os.fork()
        if not forked:
            os.execv("/bin/sleep", ["sleep", "300"]) if os.fork() else os.read(fd, 1)
        os.read(fd, 1)
    """
    async with started(spawner, script(code)) as child:
        with trio.fail_after(120):
            while len(process_table.session_members(child.pid)) < 3:
                await trio.lowlevel.checkpoint()
        for member in process_table.session_members(child.pid):
            with trio.fail_after(120):  # In the middle of an exec it cannot be told.
                while (marked := _is_marked(member.pid)) is None:
                    await trio.lowlevel.checkpoint()
            assert marked


async def test_child_handles_no_signal_and_blocks_none(spawner: Spawner) -> None:
    """What this process ignores it does, too: a job in the background ignores some."""
    code = """
        import signal
        for number in signal.valid_signals() - {signal.SIGINT}:
            if callable(signal.getsignal(number)) and signal.getsignal(number) not in (0, 1):
                print(number)
        print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    """
    async with started(spawner, script(code)) as child:
        await child.wait()
        assert child.output_tail() == "set()\n"


async def test_child_can_start_pythons_of_its_own(spawner: Spawner) -> None:
    code = """
        import multiprocessing, time
        context = multiprocessing.get_context("spawn")
        other = context.Process(target=time.sleep, args=(0,))
        other.start()
        other.join()
        print(other.exitcode)
    """
    async with started(spawner, script(code)) as child:
        await child.wait()
        assert child.output_tail() == "0\n"


async def test_cancelled_spawn_starts_nothing(spawner: Spawner, tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await spawner.spawn(shell(f"touch {tmp_path}/started"))
    assert scope.cancelled_caught
    async with started(spawner, shell("exit 0")) as later:
        await later.wait()
    assert "started" not in os.listdir(tmp_path)  # noqa: PTH208 - a trio path is no gain here


async def test_stop_asks_first(spawner: Spawner) -> None:
    code = """
        import os, signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        os.write(fd, b"ready")
        signal.pause()
    """
    async with started(spawner, script(code)) as child:
        await child.stream.receive_some(5)
        assert await child.stop() == ExitStatus(3, None)
        with pytest.raises(trio.ClosedResourceError):
            await child.stream.send_all(b"x")


async def test_group_that_ignores_the_request_is_killed_after_the_grace_time(
    spawner: Spawner,
) -> None:
    """Case: C38."""
    code = """
        import os, signal, subprocess, sys
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        member = subprocess.Popen(["sleep", "300"])
        os.write(fd, f"{member.pid}".encode())
        signal.pause()
    """
    async with started(spawner, script(code)) as child:
        member = identity_of(int(await child.stream.receive_some(20)))
        assert member is not None
        asked_at = trio.current_time()
        assert await child.stop(grace_s=2.0) == ExitStatus(None, signal.SIGKILL)
        assert 2.0 <= trio.current_time() - asked_at < 4.0
        assert is_alive(member) is Liveness.GONE


async def test_shells_in_groups_of_their_own_do_not_outlive_a_dead_child(spawner: Spawner) -> None:
    code = """
        import os, subprocess, sys
        shell = subprocess.Popen(["sleep", "300"], process_group=0)
        os.write(fd, f"{shell.pid}".encode())
        os.kill(os.getpid(), 9)
    """
    async with started(spawner, script(code)) as child:
        shell = identity_of(int(await child.stream.receive_some(20)))
        assert shell is not None
        assert await child.wait() == ExitStatus(None, signal.SIGKILL)
        assert is_alive(shell) is Liveness.GONE


@pytest.mark.parametrize("end", ["sys.exit(5)", "os.kill(os.getpid(), 9)", "signal.pause()"])
async def test_processes_that_cleared_their_environment_do_not_outlive_the_child(
    spawner: Spawner, end: str
) -> None:
    """They start one another anew all the time, so that no single look finds all of them."""
    code = f"""
        import os, signal, subprocess, sys
        script = 'trap "" TERM; while :; do env -i sleep 300 & sleep 0.01; done'
        shell = subprocess.Popen(["/bin/sh", "-c", script], process_group=0, env={{}})
        os.write(fd, f"{{shell.pid}}".encode())
        {end}
    """
    async with started(spawner, script(code)) as child:
        shell = identity_of(int(await child.stream.receive_some(20)))
        assert shell is not None
        if "pause" in end:
            await child.stop()
        await child.wait()
        assert is_alive(shell) is Liveness.GONE
        assert process_table.session_members(child.pid) == []
        assert await child.stop() == await child.wait()


async def test_process_that_has_left_the_session_is_a_stranger(spawner: Spawner) -> None:
    code = """
        import os, subprocess, sys
        stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
        os.write(fd, f"{stranger.pid}".encode())
    """
    async with started(spawner, script(code)) as child:
        stranger = identity_of(int(await child.stream.receive_some(20)))
        assert stranger is not None
        await child.stop()
        assert is_alive(stranger) is Liveness.ALIVE
        assert signal_exactly(stranger, signal.SIGKILL)


async def test_child_is_reaped_only_when_nothing_of_its_session_is_left(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its zombie is what proves that the others are its own."""
    leaders: list[ProcessIdentity | None] = []

    def seen(session_id: int) -> list[ProcessState]:
        leaders.append(identity_of(session_id))
        return session_members(session_id)

    session_members = process_table.session_members
    monkeypatch.setattr(process_table, "session_members", seen)
    async with started(spawner, shell("env -i sleep 300 & kill -9 $$")) as child:
        await child.wait()
        assert identity_of(child.pid) is None
        assert leaders == [child.identity] * 2


async def test_what_cannot_be_killed_is_told_by_every_stop_and_the_child_is_reaped(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def survive(leader: ProcessIdentity, marker: str) -> None:
        await trio.lowlevel.checkpoint()
        raise ProcessesSurvived(f"of {leader.pid}, {marker}")

    monkeypatch.setattr(session_child, "end_session", survive)
    with trio.fail_after(120):
        child = await spawner.spawn(shell("exit 7"))
        assert await child.wait() == ExitStatus(7, None)
        assert identity_of(child.pid) is None
        for _ in range(2):
            with pytest.raises(ProcessesSurvived, match=f"of {child.pid}, {MARKER}"):
                await child.stop()


async def test_cancelled_stop_still_ends_the_child(spawner: Spawner) -> None:
    async with started(spawner, shell("sleep 300")) as child:
        with trio.CancelScope() as scope:
            scope.cancel()
            await child.stop()
        assert is_alive(child.identity) is Liveness.GONE


async def test_nothing_is_left_open_after_a_stop(spawner: Spawner) -> None:
    before = _descriptors()
    async with started(spawner, shell("sleep 300")) as child:
        assert _descriptors() != before
        await child.stop(grace_s=0)
    await trio.testing.wait_all_tasks_blocked()
    assert _descriptors() == before


def test_environment_is_an_allow_list_with_additions() -> None:
    inherited = {
        "HOME": "/h", "PATH": "/bin", "LC_ALL": "C.UTF-8", "XDG_RUNTIME_DIR": "/r",
        "AWS_SECRET_ACCESS_KEY": "s", "PYTHONPATH": "/p", "LD_PRELOAD": "x.so",
    }  # fmt: skip
    assert child_environment({"EXTRA": "1"}, inherited=inherited) == {
        "HOME": "/h", "PATH": "/bin", "LC_ALL": "C.UTF-8", "XDG_RUNTIME_DIR": "/r", "EXTRA": "1",
    }  # fmt: skip


def _is_marked(pid: int) -> bool | None:
    return process_table.started_with(pid, MARKER_VARIABLE, MARKER)


def _descriptors() -> set[str]:
    return {entry.name for entry in Path("/dev/fd").iterdir()}
