"""Runs one pytest suite in several processes at once: `python -m tools.side_by_side SUITE`.

Each test runs in exactly one of them (`tools/shared_tests.py`). While they run, the lines that
say how far a file is come as each is complete; in the end comes what each process has to say, its
failures among it. The exit code is 0 if every process had 0, else the greatest. An interrupt goes
to all of them, and a second one ends them hard. Whatever they have started must be gone by then:
what is left is named and ended, and the run has failed.

All temporary files of the tests are in one folder, which is removed. It is in memory where there
is room, and has a short name, because the path of a Unix socket has at most 107 bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools import shared_tests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

ROOT: Final = Path(__file__).resolve().parent.parent
PROC: Final = Path("/proc")
TEMPORARY_BYTES_MAX: Final = 30
"""Longest name of a folder for temporary files that leaves room for the path of a socket."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a private folder is made inside
MEMORY_BYTES: Final = 2**31
"""Free memory without which the tests use the disk; they take about a quarter of it."""

_SECTION: Final = re.compile(r"=+ .+ =+\n")
_BEGIN: Final = re.compile(r"collected \d+ items?\b")
_printing: Final = threading.Lock()


class Member:
    """One pytest process, read by a thread of its own.

    Attributes:
        told: what it said after its last test, or all of it if it came to no test.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._process: Final = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            process_group=0,
        )
        self.told: Final[list[str]] = []
        self._sent: Final[set[signal.Signals]] = set()
        self._reader: Final = threading.Thread(target=self._read)
        self._reader.start()

    def signal_once(self, number: signal.Signals) -> None:
        """Signal the process and what is in its group, unless it has ended or was sent this."""
        if number not in self._sent and self._process.poll() is None:
            self._sent.add(number)
            os.killpg(self._process.pid, number)

    def wait(self) -> int:
        """Return its exit code, as a shell has it."""
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def finish(self) -> None:
        """Wait for the end of its output, which whoever inherited it may hold open."""
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        is_running = False
        for line in self._process.stdout:
            if _SECTION.fullmatch(line):
                is_running = False
            if is_running and line.strip():
                say(line)
            elif not is_running:
                self.told.append(line)
            if _BEGIN.match(line):
                is_running = True
                self.told.clear()


def say(text: str) -> None:
    """Print a text that ends with a line's end, not mixed with another one."""
    with _printing:
        sys.stdout.write(text)
        sys.stdout.flush()


class Interrupts:
    """Passes an interrupt on to every member; after the second one, SIGKILL.

    Attributes:
        first: the first signal there was.
    """

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._meant: signal.Signals | None = None
        self._members: Final[list[Member]] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._interrupted)

    def add(self, member: Member) -> None:
        """Pass on to this one as well, also what came before."""
        self._members.append(member)
        self._pass_on()

    def _interrupted(self, number: int, _: FrameType | None) -> None:
        self._meant = signal.SIGINT if self.first is None else signal.SIGKILL
        self.first = self.first or signal.Signals(number)
        self._pass_on()

    def _pass_on(self) -> None:
        if self._meant is not None:
            for member in self._members:
                member.signal_once(self._meant)


def left_behind(folder: Path) -> dict[int, str]:
    """Return living processes that have `folder` in their environment or work in it, by pid."""
    return dict(_left_behind(folder)) if PROC.is_dir() else {}


def _left_behind(folder: Path) -> Iterator[tuple[int, str]]:
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            settings = (entry / "environ").read_bytes()
            if os.fsencode(folder) in settings or (entry / "cwd").readlink().is_relative_to(
                folder
            ):
                yield int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:  # It has ended, or is another user's.
            continue


def end_left_behind(folder: Path) -> bool:
    """End what is left, by SIGKILL, and name it; say whether there was anything."""
    left = left_behind(folder)
    for pid, command in left.items():
        say(f"left behind, ended now: {pid} {command}\n")
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if pid in left_behind(folder):
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [])
        os.close(process)
    return bool(left)


def temporary_folder() -> Path:
    """Make a folder of a short name: in memory if that may be, else where TMPDIR says, or /tmp.

    The tests commit thousands of times, which memory makes durable for nothing.
    """
    places = [*(place for place in (MEMORY,) if _has_room(place)), Path(tempfile.gettempdir())]
    short = [place for place in places if len(os.fsencode(place)) <= TEMPORARY_BYTES_MAX]
    return Path(tempfile.mkdtemp(prefix="pt-", dir=short[0] if short else "/tmp"))  # noqa: S108


def _has_room(memory: Path) -> bool:
    """Say whether all folders of a whole suite fit, and programs in them may be started."""
    try:
        found = os.statvfs(memory)
    except OSError:
        return False
    is_free = found.f_bavail * found.f_frsize >= MEMORY_BYTES
    return is_free and not found.f_flag & os.ST_NOEXEC and os.access(memory, os.W_OK)


def start(folder: Path, number: int, unit: str, arguments: Sequence[str]) -> Member:
    """Start one member.

    Every second one begins at the end: a long last file would leave the others idle.
    """
    own = folder / str(number)
    own.mkdir()
    shared = (shared_tests.FOLDER, str(folder / "claims"), shared_tests.UNIT, unit)
    command = [
        *(sys.executable, "-u", "-m", "pytest", "-p", shared_tests.__name__, *shared),
        *("-p", "no:cacheprovider", "--no-header", "-o", "console_output_style=classic"),
        *(f"--basetemp={own / 't'}", *[shared_tests.BACKWARDS] * (number % 2), *arguments),
    ]
    return Member(command, {**os.environ, "TMPDIR": str(own)})


def run(folder: Path, processes: int, unit: str, arguments: Sequence[str]) -> int:
    """Run the suite with everything temporary in `folder`; return the exit code."""
    (folder / "claims").mkdir()
    interrupts = Interrupts()
    began_at = time.monotonic()
    members = [start(folder, number, unit, arguments) for number in range(processes)]
    for member in members:
        interrupts.add(member)
    codes = [member.wait() for member in members]
    has_left = end_left_behind(folder)
    for number, (member, code) in enumerate(zip(members, codes, strict=True), 1):
        member.finish()
        say(f"\n-- process {number} of {processes}, exit code {code}\n{''.join(member.told)}")
    say(f"\n-- {processes} processes, {time.monotonic() - began_at:.0f} s\n")
    if interrupts.first is not None:
        return 128 + interrupts.first
    return max(*codes, int(has_left))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.side_by_side", description="Run pytest shared out."
    )
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="how many (2)")
    parser.add_argument("--unit", choices=("file", "test"), default="file", help="what is shared")
    options, passed_on = parser.parse_known_args(arguments)
    if options.processes < 1:
        parser.error("--processes must be at least 1")
    folder = temporary_folder()
    try:
        return run(folder, options.processes, options.unit, passed_on)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
