"""The test's side of a meeting: who has arrived, exactly, and the word to go on."""

import json
import select
import socket
from pathlib import Path
from typing import Any, Final

from multiproc_tests.harness.meeting_point import GO
from multiproc_tests.harness.processes import BOUND_S, ExactProcess


class Arrival:
    """A node that waits for the test.

    Attributes:
        process: the one that waits: the runner, or a program of a shell node.
        runner: the runner it belongs to, whose session it is in; the same process for a node
            that runs in the runner.
        shell: the shell that has started it; None for a node that runs in the runner.
        facts: what else it said.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(BOUND_S)
        with connection.makefile("rb") as lines:
            self.facts: dict[str, Any] = json.loads(lines.readline())
        self.process = ExactProcess(self.facts["pid"])
        in_runner = self.facts["pid"] == self.facts["session"]
        self.runner = self.process if in_runner else ExactProcess(self.facts["session"])
        self.shell = None if in_runner else ExactProcess(self.facts["parent"])

    @property
    def place(self) -> str:
        """Where it is."""
        return str(self.facts["place"])

    def go(self) -> None:
        """Let it go on."""
        self._connection.sendall(GO)

    @property
    def processes(self) -> list[ExactProcess]:
        """All that is there for this node."""
        if self.shell is None:
            return [self.process]
        return [self.process, self.shell, self.runner]

    def assert_gone(self) -> None:
        """Assert that not one of its processes lives, now."""
        alive = [process.pid for process in self.processes if process.is_alive]
        assert not alive, f"of {self.place}"

    def await_end(self) -> None:
        """Wait until none of its processes lives."""
        for process in self.processes:
            process.await_end()

    def close(self) -> None:
        """Leave; the node fails if it still waits."""
        self._connection.close()
        for process in self.processes:
            process.close()


class Meetings:
    """Where the nodes of one test arrive."""

    def __init__(self, path: Path) -> None:
        self._listener: Final = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._arrivals: Final[list[Arrival]] = []

    def fileno(self) -> int:
        """Readable when somebody has arrived."""
        return self._listener.fileno()

    def has_arrived(self, within_s: float) -> bool:
        """Say whether a node arrives within so many real seconds."""
        return bool(select.select([self._listener], [], [], within_s)[0])

    def arrive(self, *places: str) -> Arrival:
        """Wait for the next node, which must be at one of `places` and alone there."""
        self._listener.settimeout(BOUND_S)
        connection, _ = self._listener.accept()
        arrival = Arrival(connection)
        self._arrivals.append(arrival)
        assert arrival.place in places, f"at {arrival.place}, expected {places}"
        assert arrival.facts["alone"], f"two at once at {arrival.place}"
        return arrival

    def assert_nobody(self) -> None:
        """Assert that no node has arrived that the test did not ask for."""
        self._listener.settimeout(0)
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        arrival = Arrival(connection)
        self._arrivals.append(arrival)
        raise AssertionError(f"somebody arrived at {arrival.place}")

    def close(self) -> None:
        """Leave every meeting."""
        for arrival in self._arrivals:
            arrival.close()
        self._listener.close()
