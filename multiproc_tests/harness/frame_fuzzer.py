"""Talks to a real server in hostile frames and holds it to what it owes for each of them.

For every line that is a request by our own judgement: one answer. For every other line: the end of
this connection, and of no other. What comes back is canonical frames of the protocol, always.
"""

import json
import select
import socket
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings

from multiproc_tests.harness.hostile_frames import (
    SCHEMA,
    Conversation,
    at_the_limit,
    canonical,
    conversations,
    request_id_of,
)
from multiproc_tests.harness.processes import BOUND_S

OUTCOMES: Final = frozenset(
    {"accepted", "adopted", "rejected", "conflict", "notFound", "claimLost", "unavailable"}
)
EXAMPLES_PER_ROUND: Final = 250
_PIECES_MAX: Final = 40
"""Writes of one conversation, so that small pieces do not take all the time."""

_READ_BYTES: Final = 262_144


@dataclass
class Tally:
    """What was sent and what came of it.

    Attributes:
        requests: lines that are requests; all others are `hostile`.
        outcomes: answers by their outcome.
        ended: connections that the server closed over a hostile line.
    """

    frames: int = 0
    requests: int = 0
    hostile: int = 0
    torn: int = 0
    connections: int = 0
    ended: int = 0
    left_early: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


class _Closed(Exception):
    """The server has closed the connection."""


class Connection:
    """One connection whose hello was read."""

    def __init__(self, path: Path) -> None:
        self._socket: Final = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(BOUND_S)
        self._socket.connect(str(path))
        self._received = b""
        self._socket.setblocking(False)  # noqa: FBT003 - the only way to say it
        while not (hello := self._lines_now(wait=True)):
            continue
        assert json.loads(hello[0])["type"] == "hello"

    def converse(self, conversation: Conversation, outcomes: Counter[str]) -> bool:
        """Send it all, reading meanwhile, and wait for what is owed.

        Returns:
            False when the connection is over, by our will or the server's.
        """
        owed, is_fatal = _owed(conversation.lines)
        sent = b"".join(conversation.lines)
        data = memoryview(sent)
        piece = conversation.piece and max(conversation.piece, len(data) // _PIECES_MAX)
        is_torn = bool(sent) and not sent.endswith(b"\n")
        try:
            while data:
                data = self._send(data, piece or len(data))
                self._note(self._lines_now(wait=bool(data), to_send=True), owed, outcomes)
            if conversation.leaves_early:
                return False
            while owed or is_fatal:
                self._note(self._lines_now(wait=True), owed, outcomes)
        except _Closed:
            assert is_fatal, "the server closed a connection that had sent nothing but requests"
            return False
        return not is_torn

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def send_unread(self, data: bytes) -> None:
        """Send what the socket takes and never read an answer."""
        view = memoryview(data)
        while view and select.select([], [self._socket], [], 0.2)[1]:
            view = view[self._socket.send(view) :]

    def _send(self, data: memoryview, size: int) -> memoryview:
        try:
            return data[self._socket.send(data[:size]) :]
        except BlockingIOError:
            return data
        except (BrokenPipeError, ConnectionResetError):
            self._drain()
            raise _Closed from None

    def _drain(self) -> None:
        """Read to the end: it comes, and at once."""
        while True:
            self._lines_now(wait=True)

    def _lines_now(self, *, wait: bool, to_send: bool = False) -> list[bytes]:
        """Return the lines that have come.

        Args:
            wait: for something to read.
            to_send: room to write ends the wait as well.
        """
        watched = select.poll()
        watched.register(self._socket, select.POLLIN | (select.POLLOUT if to_send else 0))
        ready = watched.poll(BOUND_S * 1_000 if wait else 0)
        assert ready or not wait, "the server neither answered nor closed"
        if not any(event & ~select.POLLOUT for _, event in ready):
            return []
        try:
            data = self._socket.recv(_READ_BYTES)
        except ConnectionResetError:
            raise _Closed from None
        if not data:
            raise _Closed
        *lines, self._received = (self._received + data).split(b"\n")
        return lines

    def _note(self, lines: list[bytes], owed: list[str], outcomes: Counter[str]) -> None:
        for line in lines:
            message = json.loads(line)
            assert canonical(message) == line + b"\n", "an answer is no canonical frame"
            assert message["schema"] == SCHEMA
            if message["type"] == "event":
                continue
            assert message["type"] == "response"
            assert message["outcome"] in OUTCOMES
            owed.remove(message["requestId"])
            outcomes[message["outcome"]] += 1


def _owed(lines: tuple[bytes, ...]) -> tuple[list[str], bool]:
    """Return the ids that are to be answered, and whether a line ends the connection.

    A line behind that one is never read, and what stands before it may go unanswered.
    """
    owed: list[str] = []
    for line in lines:
        if not line.endswith(b"\n"):
            break
        request_id = request_id_of(line)
        if request_id is None:
            return owed, True
        owed.append(request_id)
    return owed, False


class Fuzzer:
    """Holds conversations until so many frames were sent."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._connection: Connection | None = None
        self.tally: Final = Tally()

    def fuzz(self, frames: int, first_seed: int) -> None:
        """Send at least `frames` more frames, in rounds whose seeds count up from the first."""
        wanted = self.tally.frames + frames
        round_seed = first_seed
        while self.tally.frames < wanted:
            self._round(round_seed)
            self._sizes()
            round_seed += 1
        self.leave()

    def leave(self) -> None:
        """Close the connection that is kept for the next conversation."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _round(self, round_seed: int) -> None:
        @seed(round_seed)
        @settings(
            max_examples=EXAMPLES_PER_ROUND,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(conversations())
        def hold(conversation: Conversation) -> None:
            self.hold(conversation)

        hold()

    def _sizes(self) -> None:
        """Go to the limit of a frame, and one byte beyond it."""
        for extra in (0, 1):
            self.hold(Conversation((at_the_limit(extra),), piece=0, leaves_early=False))

    def hold(self, conversation: Conversation) -> None:
        """Hold one conversation, on the connection of the last one if it is still there."""
        tally = self.tally
        if self._connection is None:
            self._connection = Connection(self._path)
            tally.connections += 1
        _, is_fatal = _owed(conversation.lines)
        for line in conversation.lines:
            tally.frames += 1
            if not line.endswith(b"\n"):
                tally.torn += 1
            elif request_id_of(line) is None:
                tally.hostile += 1
            else:
                tally.requests += 1
        tally.left_early += conversation.leaves_early
        goes_on = False
        try:
            goes_on = self._connection.converse(conversation, tally.outcomes)
        finally:
            if not goes_on:
                tally.ended += is_fatal and not conversation.leaves_early
                self.leave()
