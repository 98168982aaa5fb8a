"""One life of a server on a recorded disk: its start, the commands of a scenario, its end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, final

from actors.errors import DatabaseDamaged
from actors.state_files import StateFiles
from pi_workflows.chaos.crash_reopening import Told, ToldOf
from pi_workflows.chaos.crash_start import Serving, Step, come_up
from pi_workflows.chaos.inline_store import CountedIds
from pi_workflows.chaos.scene import Acknowledged, Sent
from runtime.chaos.complaints import one_line
from runtime.chaos.disk_history import History
from runtime.chaos.disk_log import DiskLog, NoFaults
from runtime.chaos.orders import Broken, Stage
from runtime.chaos.outcome import Moment
from store.chaos.witnessed import WitnessedWriter
from store.damage import StateDamaged
from store.database import Reader, Writer
from store.errors import (
    StateIncompatibleError,
)
from store.host import HostRow
from store.wal import CheckpointMode, checkpoint

_WRONG: Final = (DatabaseDamaged, StateDamaged, StateIncompatibleError)
"""What a failing disk must not be taken for."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was known to the actors and outside at a position of the disk."""

    position: int
    acknowledged: int
    sent: int


@dataclass(frozen=True, slots=True)
class Foretold:
    """What the same life came to on a disk that did not fail.

    Attributes:
        contents: of its versions, in order.
        has_struck: says whether this disk has failed by now.
    """

    contents: list[bytes | None]
    has_struck: Callable[[], bool]


@dataclass(slots=True)
class Life:
    """What came of it.

    Attributes:
        log: everything that was done to the disk.
        history: which contents were committed.
        known: rising with the position.
        broken: what did not hold while it lived.
        faults: what the disk made of it, as its callers saw it.
        is_down: a fault has ended the store before its time.
        refusal: why the server did not come up.
        escaped: what left the store and is no error that it raises on purpose.
        foretold: as far as this life is a repetition of another; None if it is not.
        ended_ms: instant at which it was over, UTC epoch ms; what it has left is looked at then.
    """

    log: DiskLog
    history: History = field(default_factory=History)
    known: list[Known] = field(default_factory=lambda: [Known(0, 0, 0)])
    acknowledged: list[Acknowledged] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    checks: dict[str, Callable[[Any], None]] = field(default_factory=dict)
    moments: tuple[Moment, ...] = ()
    broken: Broken | None = None
    faults: list[Exception] = field(default_factory=list)
    is_down: bool = False
    refusal: Exception | None = None
    escaped: Exception | None = None
    foretold: Foretold | None = None
    ended_ms: int = 0

    @property
    def position(self) -> int:
        """How many operations were done."""
        return len(self.log.operations)

    def known_at(self, position: int) -> Known:
        """Return what was known at a position."""
        return next(known for known in reversed(self.known) if known.position <= position)

    def told(self) -> ToldOf:
        """Return for each version what actors may know when it is the newest on the disk.

        That is everything from when its commit began until somebody relies on the next one.
        """
        spans: list[tuple[int, int]] = []
        end = self.position
        for version in reversed(self.history.versions):
            spans.append((max(version.begun, 0), end))
            if version.told is not None:
                end = min(end, version.told - 1)
        spans.reverse()
        return cache(lambda index: self.told_between(*spans[index]))

    def told_between(self, first: int, last: int) -> Told:
        """Return what was known at any of these positions."""
        known = [self.known_at(first)]
        known += [each for each in self.known if first < each.position <= last]
        pairs = dict.fromkeys((each.acknowledged, each.sent) for each in known)
        looks = tuple((self.acknowledged[:asked], self.sent[:sent]) for asked, sent in pairs)
        return Told(looks, self.checks, hash(repr(looks)))

    def note(self, writer: Writer, begun: int) -> None:
        """Note what the database holds now, and from which position on it may be found."""
        self.history.add(self._content(writer), begun, self.log.place)

    def note_opened(self, writer: Writer) -> None:
        """Note what the server finds as it opens the database, if nobody knows of it yet."""
        versions = self.history.versions
        if self.foretold is None or versions[-1].content is None:
            content = self._content(writer)
            if content != versions[-1].content:
                self.history.add(content, -1, self.log.place)

    def _content(self, writer: Writer) -> bytes | None:
        """Look at the database without anybody noticing: no fault strikes, no page is cached.

        As long as nothing has failed it holds what it held in the same life without faults.
        """
        if self.foretold is not None and not self.foretold.has_struck():
            return self.foretold.contents[len(self.history.versions)]
        strikes, self.log.strikes = self.log.strikes, NoFaults()
        try:
            return writer.connection.serialize("main")
        finally:
            self.log.strikes = strikes


def complaint_of(life: Life, *, has_failed: bool = False) -> str | None:
    """Say what a life itself has broken; None if nothing.

    Args:
        has_failed: the disk has; then the store may refuse, and end.
    """
    if life.escaped is not None:
        return f"P2: no error of the store's: {one_line(life.escaped)}"
    for fault in [life.refusal, *life.faults]:
        if isinstance(fault, _WRONG):
            return f"P12: a failing disk is taken for something else: {one_line(fault)}"
    if life.refusal is not None and not has_failed:
        return f"P1: the start is refused: {one_line(life.refusal)}"
    if life.broken is not None:
        return life.broken.complaint
    return None


@final
class WitnessedState:
    """A state whose every commit is noted; see `actors.state_files.StateFiles`."""

    def __init__(self, state: StateFiles, life: Life) -> None:
        self._state: Final = state
        self._life: Final = life

    def prepare(self) -> None:
        """Make the directory."""
        self._state.prepare()

    def create(self, now: int) -> bool:
        """Create the file."""
        return self._state.create(now)

    def open_writer(self) -> Writer:
        """Open it for writing, under witness; what it holds by then is a version too."""
        life = self._life
        begun = 0
        writer = WitnessedWriter(self._state.open_writer().connection)

        def about_to() -> None:
            nonlocal begun
            begun = life.position

        def committed() -> None:
            if life.position > begun:
                life.note(writer, begun)

        writer.witness(about_to, committed)
        life.note_opened(writer)
        return writer

    def open_reader(self) -> Reader:
        """Open it for reading."""
        return self._state.open_reader()

    def host_row(self) -> HostRow | None:
        """Return who claims the file now."""
        return self._state.host_row()

    def wal_bytes(self) -> int:
        """Return the size of the log."""
        return self._state.wal_bytes()

    def database_bytes(self) -> int:
        """Return the size of the file."""
        return self._state.database_bytes()


def start(life: Life, state: StateFiles, stage: Stage, ids: CountedIds, number: int) -> Serving:
    """Bring a server up on the record; whatever it has committed is in the history.

    Whoever sees the epoch relies on it and on all that was recovered before it.

    Raises:
        StoreError, ServerRefused: it does not come up.
    """
    life.log.place = f"start {number}"

    def reached(step: Step, _writer: Writer | None) -> None:
        if step not in {Step.CREATED, Step.OPENED}:
            life.history.tell(life.position)

    return come_up(WitnessedState(state, life), stage.clock, ids, number, reached)


def end(life: Life, writer: Writer) -> None:
    """End as a server that is told to stop: empty the log and close the file.

    Raises:
        StorageFault: the disk is failing; the file is open still, and the log stays.
    """
    life.log.place = "end"
    checkpoint(writer.connection, CheckpointMode.TRUNCATE)
    writer.let_log_go()
    writer.close()
