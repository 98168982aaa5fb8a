"""Ask a child process what costs a scan of the whole database: the loop never stands still."""

import sys
from typing import Final

import trio

from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FrameError, parse_canonical
from runtime.errors import RuntimeFault
from runtime.line_stream import LineStream
from runtime.process import DESCRIPTOR_PLACEHOLDER, Child, ChildSpec, child_environment

READ_S: Final = 300.0
"""Bound of one read. It holds one snapshot, and no checkpoint gets past that."""

READER_MODULE: Final = "store.offline_reads"


class ReadFailed(Exception):
    """The child has no answer.

    Attributes:
        code: stable; the store's own where the file is to blame.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class HeavyReads:
    """One child at a time, one question each, on a READONLY connection of its own."""

    def __init__(self, services: Services) -> None:
        self._services: Final = services
        self._turn: Final = trio.Lock()

    async def state_status(self) -> JsonObject:
        """Return the facts of A §12.

        Raises:
            ReadFailed: there is no answer within five minutes, or the file cannot be read.
        """
        return await self._ask("status")

    async def state_verify(self) -> JsonObject:
        """Return what verification finds; repairs nothing.

        Raises:
            ReadFailed: as `state_status`.
        """
        return await self._ask("verify")

    async def _ask(self, question: str) -> JsonObject:
        """Wait for the turn, start a child and wait for its answer. Cancelled: it is ended."""
        async with self._turn:
            marker = f"reader-{self._services.world.ids.new_uuid()}"
            try:
                child = await self._services.world.spawner.spawn(self._spec(question, marker))
            except RuntimeFault as fault:
                raise ReadFailed(ErrorCode.INTERNAL, str(fault)) from fault
            try:
                self._services.processes.add(child.identity, marker)
                return await _answer(child)
            finally:
                await child.stop()
                self._services.processes.remove(child.identity)

    def _spec(self, question: str, marker: str) -> ChildSpec:
        database = self._services.paths.database
        argv = (
            *(sys.executable, "-P", "-m", READER_MODULE, question),
            *("--database", str(database)),
            *("--now", str(self._services.world.clock.wall_ms())),
            *("--fd", DESCRIPTOR_PLACEHOLDER),
        )
        return ChildSpec(
            argv=argv, cwd=str(database.parent), env=child_environment(), marker=marker
        )


async def _answer(child: Child) -> JsonObject:
    with trio.move_on_after(READ_S):
        try:
            line = await LineStream(child.stream).receive()
            frame = parse_canonical(line) if line is not None else {}
        except (FrameError, trio.BrokenResourceError) as error:
            raise ReadFailed(ErrorCode.INTERNAL, "the reader's answer is unusable") from error
        match frame:
            case {"answer": dict(found)}:
                return found
            case {"error": {"code": str(code), "message": str(message)}}:
                raise ReadFailed(code, message)
            case _:
                raise ReadFailed(ErrorCode.INTERNAL, "the reader ended without an answer")
    raise ReadFailed(ErrorCode.INTERNAL, f"reading the state took longer than {READ_S:g} s")
