"""Opening what a power cut has left, by the real start of a server, and looking at it closely."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from actors.errors import ServerRefused
from actors.state_files import DiskStateFiles
from pi_workflows.chaos.crash_start import Step, come_up
from pi_workflows.chaos.inline_store import CountedIds
from pi_workflows.chaos.scene import Acknowledged, Look, Sent
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.complaints import one_line
from runtime.chaos.disk_image import lay_out
from runtime.chaos.own_code import OwnCode
from runtime.chaos.scenario import SimulatedTime
from store import host
from store.authority import Claim, holding
from store.database import Writer
from store.errors import StoreError
from store.transaction import Reading
from store.verification import verify

_SERVER: Final = 99
"""The number of the server that looks; no other life has it."""

_IDS: Final = 1_000_000
"""Ids drawn before its own, so that none of them is another's."""


@dataclass(frozen=True, slots=True)
class Told:
    """What actors may have been told before somebody finds a certain content.

    Attributes:
        looks: each is what was acknowledged, and what had arrived outside, by one instant.
        checks: of the scenario, for every state.
        fingerprint: what tells it from others, in this process.
    """

    looks: tuple[tuple[list[Acknowledged], list[Sent]], ...]
    checks: Mapping[str, Callable[[Any], None]]
    fingerprint: int


ToldOf = Callable[[int], Told]
"""Returns for the index of a version what whoever finds it may have been told before."""


class Complaint(Exception):
    """What is found is not what must be; the text is one line, with the promise in front."""


@final
class Reopening:
    """A machine on which files are opened again, one set after the other.

    Attributes:
        checks: how often each invariant of a scenario has been held against a state.
    """

    def __init__(self, paths: StatePaths, clock: SimulatedTime, own: OwnCode) -> None:
        """Use the directory of `paths`, a real one, for nothing else."""
        self._own: Final = own
        self._paths: Final = paths
        self._state: Final = DiskStateFiles(paths)
        self._clock: Final = clock
        self.checks: Final[Counter[str]] = Counter()
        self._state.prepare()

    @property
    def at_ms(self) -> int:
        """Instant of a start now, UTC epoch ms; what it finds depends on that too."""
        return self._clock.wall_ms()

    def examine(self, content: Mapping[str, bytes], database: bytes | None, told: Told) -> None:
        """Start a server on these files, and look before and after it recovers.

        Args:
            database: what is in them, byte for byte; None: there is none.

        Raises:
            Complaint: something does not hold.
        """
        lay_out(self._paths.database.parent, content)
        ids = CountedIds()
        ids.drawn = _IDS
        epochs: list[int] = []

        def reached(step: Step, writer: Writer | None) -> None:
            if writer is None:
                return
            reading = Reading(writer.connection, self._clock.wall_ms())
            if step is Step.OPENED and database is not None:
                _require_same(writer, database)
            if step in {Step.OPENED, Step.RECOVERED}:
                epochs.append(host.current(reading).epoch)
                self._look(reading, told)

        try:
            serving = come_up(self._state, self._clock, ids, _SERVER, reached)
        except (StoreError, ServerRefused) as refused:
            raise Complaint(f"P9: the next start is refused: {one_line(refused)}") from refused
        serving.writer.keep_log()
        serving.writer.close()
        if epochs[1] != epochs[0] + 1:
            raise Complaint(f"P3: epoch {epochs[0]} is followed by {epochs[1]}")

    def _look(self, reading: Reading, told: Told) -> None:
        """Hold every promise that can be held against one state."""
        report = verify(reading)
        if report["ok"] is not True:
            raise Complaint(f"P12: state verify finds {_words(report)}")
        for acknowledged, sent in told.looks:
            for known in acknowledged:
                if isinstance(known.result, Claim):
                    _require_generation(reading, known.result)
            look = Look(reading, acknowledged, sent)
            for name, check in told.checks.items():
                self.checks[name] += 1
                try:
                    check(look)
                except (AssertionError, StoreError) as broken:
                    raise Complaint(f"{name}: {one_line(broken)}") from broken
                except Exception as error:
                    raise self._own.refusal_of_check(name, error) from error


def _require_same(writer: Writer, database: bytes) -> None:
    if writer.connection.serialize("main") != database:
        raise Complaint("P1: the server opens something else than SQLite recovers")


def _require_generation(reading: Reading, claim: Claim) -> None:
    try:
        generation = holding(reading, claim.resource_id).generation
    except StoreError as missing:
        raise Complaint(f"P1: a claimed resource is gone: {one_line(missing)}") from missing
    if generation < claim.generation:
        raise Complaint(f"P3: generation {claim.generation} was given out, {generation} is there")


def _words(report: Mapping[str, object]) -> str:
    violations = report["violations"]
    assert isinstance(violations, list), "a report lists what it has found"
    if violations:
        return ", ".join(sorted({str(each["code"]) for each in violations}))
    failed = [name for name in ("schema", "integrity", "foreignKeys") if not report[name]]
    return ", ".join(failed)
