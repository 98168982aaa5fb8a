"""Bytes of the database that change by themselves, and whether a server notices (P12).

What would be there without the rot is kept beside, so at each start it is known for certain
whether a reader would find what was committed. If not, the start has to say that the file is
damaged, and to leave every byte as it is. Then somebody puts the sound copy in its place, as he is
told to, and nothing that was acknowledged may be missing.

Rot is what SQLite can find: a whole page that is none any more. It keeps no checksums.
"""

import itertools
import math
from collections.abc import Callable
from enum import StrEnum
from typing import Final, final

import trio

from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.simulated_disk import SimulatedDisk
from pi_workflows.protocol.errors import ExitCode
from pi_workflows.server import Explained
from runtime.simulation.chance import Draws
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.trace import Trace
from runtime.sync_points import SyncPoint
from store.chaos.recovered import Recoverer
from store.chaos.rotting import HEAD_BYTES, PAGE_BYTES, as_found, tree_pages
from store.damage import STATE_DAMAGED_TEXT

_NUMBERS: Final = itertools.count(1)


class Rotting(StrEnum):
    """What becomes of bytes of the database."""

    ZEROS = "zeros in the place of a page"
    JUNK = "junk in the place of a page"
    HEAD = "junk in the place of the head"
    CUT = "the end is gone"


_KINDS: Final = tuple(kind.value for kind in Rotting)


@final
class Rot:
    """Spoils the database of a simulated machine, and judges what its servers do about it."""

    def __init__(
        self,
        disk: SimulatedDisk,
        database: str,
        trace: Trace,
        complain: Callable[[InvariantBroken], None],
    ) -> None:
        """`complain` is given the promise that is broken; `database` is the name of the file."""
        self._disk: Final = disk
        self._database: Final = database
        self._files: Final = (database, f"{database}-wal")
        self._trace: Final = trace
        self._complain: Final = complain
        self._begun: Final[dict[SimulatedProcess, list[bytes]]] = {}
        self._opened: Final[set[SimulatedProcess]] = set()
        self._owners: Final[set[SimulatedProcess]] = set()
        self._told_at: Final[dict[SimulatedProcess, float]] = {}
        self._is_told = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """What may become of the database."""
        return _KINDS

    @property
    def is_unnoticed(self) -> bool:
        """Whether bytes have changed, and no start has said so yet."""
        return self._disk.has_rotted and not self._is_told

    def strike(self, kind: str, draws: Draws) -> str | None:
        """Spoil some bytes; return what was done in words, None if there is nothing to spoil."""
        content = self._disk.content().get(self._database, b"")
        pages = tree_pages(content)
        if not pages:
            return None
        at, data = _spoilt(Rotting(kind), pages, len(content), draws)
        self._disk.rot(self._database, at, data)
        self._begun.clear()
        return f"{kind}, from byte {at} of {len(content)}"

    def begins(self, process: SimulatedProcess, *, is_alone: bool) -> None:
        """A server process begins; `is_alone`: no other one lives."""
        if not self._disk.has_rotted:
            return
        if is_alone and self._is_told:
            self._restore("somebody puts a sound copy in the place of the damaged file")
        elif is_alone and not self._content()[1]:
            self._restore("the last server has stopped in order, so nobody would look")
        else:
            self._begun[process] = self._content()

    def passes(self, process: SimulatedProcess, point: SyncPoint) -> None:
        """A server comes by a place."""
        if point is SyncPoint.START_DATABASE_OPEN and self._disk.has_rotted:
            if self._differs():
                self._opened.add(process)
            else:
                self._disk.forget_rot()
        elif point is SyncPoint.START_EPOCH_TAKEN:
            self._owners.add(process)
            if process in self._opened:
                self._broken(f"{process.name} takes a damaged file for its own", "P12")
        elif (
            point is SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY
            # What was under way when somebody met the damage is finished at that instant.
            and trio.current_time() > self._told_at.get(process, math.inf)
        ):
            self._broken(f"{process.name} has told of damage and goes on writing", "P12")

    def told(self, process: SimulatedProcess) -> None:
        """Somebody was told of damage while this server serves."""
        self._told_at.setdefault(process, trio.current_time())

    def ends(self, process: SimulatedProcess, end: Explained) -> None:
        """A server ends and says why."""
        is_told = end.text == STATE_DAMAGED_TEXT or end.exit_code is ExitCode.INCOMPATIBLE_STATE
        if process in self._owners:
            return
        if is_told and not (self._disk.has_rotted and self._differs()):
            self._broken(f"{process.name} refuses a sound file: {end.text}", "P9")
        elif is_told and self._begun.get(process, self._content()) != self._content():
            self._broken(f"{process.name} has written to the damaged file", "P12")
        elif is_told:
            self._is_told = True
        elif process in self._opened:
            self._broken(f"the file is damaged, and {process.name} says: {end.text}", "P12")

    def _restore(self, why: str) -> None:
        self._trace.note("people", "restored", why)
        self._disk.restore()
        self._is_told = False
        self._begun.clear()
        self._opened.clear()

    def _content(self) -> list[bytes]:
        content = self._disk.content()
        return [content.get(name, b"") for name in self._files]

    def _differs(self) -> bool:
        """Say whether a reader would find anything else than what was committed."""
        recoverer = Recoverer(f"rot-{next(_NUMBERS)}")
        try:
            found = as_found(recoverer, self._database, self._disk.content())
            return found != as_found(recoverer, self._database, self._disk.sound_content())
        finally:
            recoverer.close()

    def _broken(self, complaint: str, promise: str) -> None:
        self._complain(InvariantBroken(complaint, promise))


def _spoilt(kind: Rotting, pages: list[int], size: int, draws: Draws) -> tuple[int, bytes | None]:
    """Return where the file is spoilt, and what stands there then; None: nothing from there on.

    Args:
        pages: where pages of tables and indexes begin.
    """
    match kind:
        case Rotting.ZEROS:
            return draws.choice(pages), bytes(PAGE_BYTES)
        case Rotting.JUNK:
            at = draws.randrange(1, size // PAGE_BYTES) * PAGE_BYTES
            # Neither a kind of page nor the number of one.
            return at, b"\xff" + draws.randbytes(PAGE_BYTES - 1)
        case Rotting.HEAD:
            return 0, b"\xff" + draws.randbytes(HEAD_BYTES - 1)
        case Rotting.CUT:
            return draws.choice(pages), None
