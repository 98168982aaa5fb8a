"""Ask a child process what takes long to read: the loop never stands still."""

import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio
from trio_util import move_on_when

from actors.documents import Document
from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FRAME_BYTES_MAX, FrameError, parse_canonical
from runtime.child_environment import child_environment
from runtime.errors import RuntimeFault
from runtime.process import Child, ChildSpec
from runtime.program import DESCRIPTOR_PLACEHOLDER

AnswerT = TypeVar("AnswerT")

READ_S: Final = 300.0
"""Bound of one read. It holds one snapshot, and no checkpoint gets past that."""

READER_MODULE: Final = "store.offline_reads"

_RECEIVE_BYTES: Final = 262_144


class ReadFailed(Exception):
    """The child has no answer.

    Attributes:
        code: stable; the store's own where the file is to blame.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class HeavyReads:
    """One child at a time, one question each, on a READONLY connection of its own.

    Every method raises `ReadFailed` when there is no answer within five minutes, the file cannot
    be read, or so much is written meanwhile that the log must not wait for the reader any longer.
    Cancelled: the child is ended.
    """

    def __init__(self, services: Services) -> None:
        self._services: Final = services
        self._turn: Final = trio.Lock()

    async def state_status(self) -> JsonObject:
        """Return the facts of A §12."""
        return await self._ask(("status",), _receive_answer)

    async def state_verify(self) -> JsonObject:
        """Return what verification finds; repairs nothing."""
        return await self._ask(("verify",), _receive_answer)

    async def is_sound(self) -> bool:
        """Say whether `quick_check` and `foreign_key_check` find nothing."""
        return (await self._ask(("quick-check",), _receive_answer)).get("sound") is True

    async def run_state(self, run_id: str) -> Document:
        """Return the whole `pi-workflows.run-state.v1` of a run, at most 512 MiB."""
        # One argument: an id that begins with a dash is no option.
        return await self._ask(("run-state", f"--run-id={run_id}"), _receive_document)

    async def _ask(
        self, question: tuple[str, ...], receive: Callable[["_Answer"], Awaitable[AnswerT]]
    ) -> AnswerT:
        """Wait for the turn, start a child and wait for its answer."""
        async with self._turn:
            marker = f"reader-{self._services.world.ids.new_uuid()}"
            try:
                child = await self._services.spawner.spawn(self._spec(question, marker))
            except RuntimeFault as fault:
                raise ReadFailed(ErrorCode.INTERNAL, str(fault)) from fault
            try:
                self._services.processes.add(child.identity, marker)
                return await self._within_bounds(child, receive)
            finally:
                await child.stop()
                self._services.processes.remove(child.identity)

    async def _within_bounds(
        self, child: Child, receive: Callable[["_Answer"], Awaitable[AnswerT]]
    ) -> AnswerT:
        crowded = self._services.store.is_log_crowded
        with trio.move_on_after(READ_S):
            async with move_on_when(crowded.wait_value, True):  # noqa: FBT003 - the value
                try:
                    return await receive(_Answer(child))
                except (FrameError, trio.BrokenResourceError) as error:
                    raise ReadFailed(
                        ErrorCode.INTERNAL, "the reader's answer is unusable"
                    ) from error
            raise ReadFailed(
                ErrorCode.STATE_BUSY,
                "so much was written meanwhile that the log could not wait for this read; "
                "ask again when less is going on",
            )
        raise ReadFailed(ErrorCode.INTERNAL, f"reading the state took longer than {READ_S:g} s")

    def _spec(self, question: tuple[str, ...], marker: str) -> ChildSpec:
        database = self._services.paths.database
        argv = (
            *(sys.executable, "-P", "-m", READER_MODULE, *question),
            *("--database", str(database)),
            *("--now", str(self._services.world.clock.wall_ms())),
            *("--fd", DESCRIPTOR_PLACEHOLDER),
        )
        return ChildSpec(
            argv=argv, cwd=str(database.parent), env=child_environment(), marker=marker
        )


class _Answer:
    """The bytes of a child's answer: one line, and what follows it."""

    def __init__(self, child: Child) -> None:
        self._stream: Final = child.stream
        self._received = bytearray()

    async def line(self) -> bytes:
        """Return the first line without its newline."""
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > FRAME_BYTES_MAX:
                raise FrameError("the first line is too long")
            await self._receive_more()
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    async def following(self, size: int) -> bytearray:
        """Return the `size` bytes after the line, without another copy of them."""
        while len(self._received) < size:
            await self._receive_more()
        if len(self._received) > size:
            raise FrameError("more bytes than were announced")
        return self._received

    async def _receive_more(self) -> None:
        data = await self._stream.receive_some(_RECEIVE_BYTES)
        if not data:
            raise ReadFailed(ErrorCode.INTERNAL, "the reader ended without an answer")
        self._received += data


async def _receive_answer(answer: _Answer) -> JsonObject:
    match parse_canonical(await answer.line()):
        case {"answer": dict(found)}:
            return found
        case {"error": {"code": str(code), "message": str(message)}}:
            raise ReadFailed(code, message)
        case _:
            raise FrameError("neither an answer nor an error")


async def _receive_document(answer: _Answer) -> Document:
    match await _receive_answer(answer):
        case {"bytes": int(size), "sha256": str(sha256)}:
            return Document(await answer.following(size), sha256)
        case _:
            raise FrameError("no document was announced")
