"""Real server processes: started, killed, stopped, killed at a named point."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from multiproc_tests.harness import armed_server, gated_server
from multiproc_tests.harness.meetings import Meetings
from multiproc_tests.harness.processes import BOUND_S
from multiproc_tests.harness.shared_clock import LOOK_EVERY_S, SharedClock
from pi_workflows.client.discovery import StartTiming, prepare_directories, start_server
from pi_workflows.protocol.paths import StatePaths
from runtime.sync_points import DIE, RELEASE, SyncPoint

ROOT: Final = Path(__file__).resolve().parents[2]
SERVER_RUN: Final = (sys.executable, "-P", "-m", "pi_workflows.cli", "server", "run")
_ONE_START: Final = StartTiming(poll_ms=10, wait_ms=int(BOUND_S * 1000), spawns_max=1)


class RunningServer:
    """One server process of a test, its standard error kept."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: Path) -> None:
        self.process: Final = process
        self._errors: Final = errors

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """False once it has ended."""
        return self.poll() is None

    def poll(self) -> int | None:
        """Return its exit code; None while it runs. What starting on demand asks of a process."""
        return self.process.poll()

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        return self._errors.read_text()

    def kill(self) -> None:
        """End it by SIGKILL; what it has started stays."""
        self.process.kill()
        self.process.wait(BOUND_S)

    def freeze(self) -> None:
        """Let it stand still, and return when it does."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it by SIGTERM and hold it to an orderly end."""
        self.process.terminate()
        assert self.exit_code() == 0, self.errors
        assert self.errors == ""

    def exit_code(self) -> int:
        """Wait for its end."""
        return self.process.wait(BOUND_S)


class ArmedServer:
    """A server that stops at sync points; each stop is reported and answered over a socket.

    Answers may be given before the stop that they are for.

    Args:
        die_at: at which stop it is to kill itself, counted from 1; None leaves all to the test.
    """

    def __init__(
        self,
        server: RunningServer,
        control: socket.socket,
        clock: SharedClock,
        die_at: int | None,
    ) -> None:
        self.server: Final = server
        self._clock: Final = clock
        self._control: Final = control
        self._reports: Final = control.makefile("rb", buffering=0)
        self._die_at: Final = die_at
        if die_at is not None:
            control.sendall(RELEASE * (die_at - 1) + DIE)

    def stopped_at(self) -> str:
        """Wait for the next stop and return the point's name; empty when the server has ended."""
        return self._reports.readline().decode().strip()

    def stopped_later_at(self) -> str:
        """Let time pass, second by second, until the next stop; return the point's name.

        A timer that the server has yet to set fires as well.
        """
        for _ in range(int(BOUND_S / LOOK_EVERY_S)):
            self._clock.pass_time(1)
            if select.select([self._control], [], [], LOOK_EVERY_S)[0]:
                break
        return self.stopped_at()

    def release(self) -> None:
        """Let it go on from the next stop that has no answer yet."""
        self._control.sendall(RELEASE)

    def assert_died(self, point: SyncPoint) -> None:
        """Assert that it was ended where `die_at` said, and by nothing else."""
        assert self._die_at is not None
        assert self.server.exit_code() == -signal.SIGKILL, self.server.errors
        stops = [self.stopped_at() for _ in range(self._die_at + 1)]
        assert stops == [*[str(point)] * self._die_at, ""]

    def stops_before_an_arrival(self, meetings: Meetings) -> bool:
        """Wait for what comes first: a stop (True) or somebody's arrival."""
        ready, _, _ = select.select([self._control.fileno(), meetings.fileno()], [], [], BOUND_S)
        assert ready, "neither a stop nor an arrival"
        if self._control.fileno() not in ready:
            return False
        assert self.stopped_at(), f"the server has ended: {self.server.errors}"
        return True

    def serve_until_arrival(self, meetings: Meetings) -> None:
        """Let it go on from every stop until somebody has arrived."""
        while self.stops_before_an_arrival(meetings):
            self.release()

    def close(self) -> None:
        """Leave; an armed server that lives goes on and never stops again."""
        self._reports.close()
        self._control.close()


class Servers:
    """All servers of one test.

    Attributes:
        clock: moves the clocks of the armed ones.
    """

    def __init__(self, paths: StatePaths, environment: Mapping[str, str]) -> None:
        self._paths: Final = paths
        self._environment: Final = dict(environment)
        self._all: Final[list[RunningServer]] = []
        self._armed: Final[list[ArmedServer]] = []
        self.clock: Final = SharedClock()

    @property
    def alive(self) -> list[RunningServer]:
        """Those that have not ended."""
        return [server for server in self._all if server.is_alive]

    def start(self, **environment: str) -> RunningServer:
        """Start `server run` and return when it serves."""
        started: list[RunningServer] = []

        def launch(_: StatePaths) -> RunningServer:
            started.append(self.launch(SERVER_RUN, environment))
            return started[0]

        start_server(self._paths, launch=launch, timing=_ONE_START).close()
        (server,) = started
        assert server.is_alive, server.errors
        return server

    def launch(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> RunningServer:
        """Start a server program; nothing says that it will serve."""
        process, errors = self._spawn(command, environment or {}, ())
        server = RunningServer(process, errors)
        self._all.append(server)
        return server

    def launch_armed(self, *points: SyncPoint, die_at: int | None = None) -> ArmedServer:
        """Start a server that stops at `points`, also on its way to serving."""
        ours, theirs = socket.socketpair()
        ours.settimeout(BOUND_S)
        with theirs:
            descriptors = (theirs.fileno(), self.clock.descriptor)
            command = [sys.executable, "-P", str(armed_server.__file__), *map(str, descriptors)]
            process, errors = self._spawn([*command, *points], {}, descriptors)
        server = RunningServer(process, errors)
        armed = ArmedServer(server, ours, self.clock, die_at)
        self._all.append(server)
        self._armed.append(armed)
        return armed

    def start_armed(self, *points: SyncPoint, die_at: int | None = None) -> ArmedServer:
        """Start a server that stops at `points` and return when it serves."""
        started: list[ArmedServer] = []

        def launch(_: StatePaths) -> RunningServer:
            started.append(self.launch_armed(*points, die_at=die_at))
            return started[0].server

        start_server(self._paths, launch=launch, timing=_ONE_START).close()
        return started[0]

    def race(self, count: int) -> list[RunningServer]:
        """Start servers that pass their gate at the same instant; the gate is one pipe."""
        gate_read, gate_write = os.pipe()
        command = [sys.executable, "-P", str(gated_server.__file__)]
        racers = []
        ready = []
        for _ in range(count):
            read, write = os.pipe()
            process, errors = self._spawn(command, {}, (), stdin=gate_read, stdout=write)
            os.close(write)
            racers.append(RunningServer(process, errors))
            ready.append(read)
        self._all.extend(racers)
        os.close(gate_read)
        for read in ready:
            with open(read, "rb") as lines:  # noqa: PTH123 - a descriptor
                assert lines.readline() == b"ready\n"
        os.close(gate_write)
        return racers

    def await_ended(self, servers: Sequence[RunningServer], count: int) -> list[RunningServer]:
        """Wait until `count` of these have ended and return them."""
        watched = {os.pidfd_open(server.pid): server for server in servers}
        poll = select.poll()
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        ended: list[RunningServer] = []
        while len(ended) < count:
            ready = poll.poll(BOUND_S * 1000)
            assert ready, f"{len(ended)} of {len(servers)} servers have ended, not {count}"
            for descriptor, _ in ready:
                poll.unregister(descriptor)
                ended.append(watched[descriptor])
        for descriptor in watched:
            os.close(descriptor)
        return ended

    def close(self) -> None:
        """End every server that lives, hard, and forget the armed ones."""
        for server in self.alive:
            server.kill()
        for armed in self._armed:
            armed.close()
        self.clock.close()

    def _spawn(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        descriptors: tuple[int, ...],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
    ) -> "tuple[subprocess.Popen[bytes], Path]":
        prepare_directories(self._paths)
        errors = self._paths.home / f"server-{len(list(self._paths.home.glob('server-*')))}"
        with errors.open("wb") as written:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**self._environment, "PYTHONPATH": str(ROOT), **environment},
                stdin=stdin,
                stdout=stdout,
                stderr=written,
                pass_fds=descriptors,
                start_new_session=True,
            )
        return process, errors
