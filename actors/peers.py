"""Quotas of the processes at the other end, so that one that runs wild leaves room for others.

All connections are of one user. What tells them apart is the process that connected, as the
kernel saw it; connections of which it says nothing share one quota. Remote clients of one SSH
connection are one process.
"""

from typing import Final

import trio

CLIENTS_MAX: Final = 256
CLIENTS_PER_PROCESS_MAX: Final = 64

IN_FLIGHT_PER_PROCESS_MAX: Final = 256
"""Requests of all connections of a process that are worked on, or whose answers wait to be read;
more wait in their sockets. With the size of a frame it bounds what a process can make us keep."""


class Peer:
    """One process at the other end.

    Attributes:
        connections: how many it has.
        slots: one is taken for each of its requests until the answer is written.
        parsing: held for its large frame that is next to be parsed.
    """

    def __init__(self, process: int | None) -> None:
        self.process: Final = process
        self.connections = 0
        self.parsing: Final = trio.Lock()
        self.slots: Final = trio.Semaphore(
            IN_FLIGHT_PER_PROCESS_MAX, max_value=IN_FLIGHT_PER_PROCESS_MAX
        )


class Peers:
    """All processes that are connected."""

    def __init__(self) -> None:
        self._known: Final[dict[int | None, Peer]] = {}
        self._connections = 0

    def admit(self, process: int | None) -> "Peer | str":
        """Count a connection of this process; return why not if it is one too many."""
        if self._connections >= CLIENTS_MAX:
            return f"the server has {CLIENTS_MAX} clients, which is as many as it serves"
        peer = self._known.get(process) or Peer(process)
        if peer.connections >= CLIENTS_PER_PROCESS_MAX:
            return (
                f"this process has {CLIENTS_PER_PROCESS_MAX} connections to the server, "
                "which is as many as one may have; close some"
            )
        self._known[process] = peer
        peer.connections += 1
        self._connections += 1
        return peer

    def dismiss(self, peer: Peer) -> None:
        """Count a connection as closed."""
        peer.connections -= 1
        self._connections -= 1
        if not peer.connections:
            del self._known[peer.process]
