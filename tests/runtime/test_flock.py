"""Behaviour of the exclusive file lock, with real processes."""

import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import trio

from runtime.flock import FileLock
from runtime.identity import identity_of, signal_exactly, wait_gone

HOLDER = textwrap.dedent("""
    import subprocess, sys
    from pathlib import Path
    from runtime.flock import FileLock
    lock = FileLock(Path(sys.argv[1]))
    assert lock.try_acquire()
    child = subprocess.Popen(["sleep", "300"], close_fds=False)
    print(child.pid, flush=True)
    sys.stdin.read()
""")


async def test_second_taker_is_refused_until_the_first_releases(tmp_path: Path) -> None:
    """Case: C7."""
    path = tmp_path / "host.lock"
    first, second = FileLock(path), FileLock(path)
    assert first.try_acquire()
    assert first.try_acquire()
    assert not second.try_acquire()
    assert not await second.acquire(0.01)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first.release()
    first.release()
    assert not first.is_held
    assert await second.acquire(1)
    assert path.exists()
    second.release()
    assert path.exists()


def test_lock_ends_with_its_process_even_if_a_child_of_it_lives_on(tmp_path: Path) -> None:
    path = tmp_path / "host.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        lock = FileLock(path)
        assert not lock.try_acquire()
        holder.kill()
        holder.wait()
        assert lock.try_acquire()
        lock.release()
        trio.run(_end, child)


async def _end(pid: int) -> None:
    identity = identity_of(pid)
    assert identity is not None
    assert signal_exactly(identity, signal.SIGKILL)
    with trio.fail_after(120):
        await wait_gone(identity)
