"""Full disks, I/O errors and failed flushes of a simulated machine, and deaths in the middle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, final

from pi_workflows.chaos.fault_book import FaultBook
from pi_workflows.chaos.process_faults import SERVER
from runtime.chaos.disk_faults import Failure
from runtime.simulation.chance import Draws
from runtime.simulation.processes import SimulatedProcess

_NAMES: Final = "names"

_FAMILIES: Final[Mapping[str, str]] = {
    "write": "write",
    "truncate": "write",
    "read": "read",
    "open": "open",
    "sync": "flush",
    "create": _NAMES,
    "link": _NAMES,
    "rename": _NAMES,
    "remove": _NAMES,
    "sync directory": _NAMES,
}
"""The word of a call in the names of choices."""

MUTATING: Final = frozenset(_FAMILIES) - {"read", "open"}

_CAN: Final[Mapping[str, tuple[tuple[str, Failure], ...]]] = {
    "write": (
        ("disk_full", Failure.DISK_FULL),
        ("io_error", Failure.WRITE_ERROR),
        ("io_error", Failure.TORN_WRITE),
    ),
    "truncate": (("io_error", Failure.TRUNCATE_ERROR),),
    "read": (("io_error", Failure.READ_ERROR),),
    "open": (("io_error", Failure.OPEN_ERROR),),
    "sync": (("fsync_failure", Failure.SYNC_ERROR),),
    "create": (("disk_full", Failure.DISK_FULL), ("io_error", Failure.NAME_ERROR)),
    "link": (("io_error", Failure.NAME_ERROR),),
    "rename": (("io_error", Failure.NAME_ERROR),),
    "remove": (("io_error", Failure.NAME_ERROR),),
    "sync directory": (("io_error", Failure.NAME_ERROR),),
}
"""How a call may fail: the kind of fault, and what comes of it."""

_ONCE: Final = "once"
_A_WHILE: Final = "for a while"

_OPTIONS: Final[Mapping[str, tuple[str, Mapping[str, tuple[str, Failure, str]]]]] = {
    call: (
        f"disk {_FAMILIES[call]}",
        {
            f"{failure} {span}": (kind, failure, span)
            for kind, failure in faults
            for span in ((_ONCE, _A_WHILE) if failure is Failure.DISK_FULL else (_ONCE,))
        },
    )
    for call, faults in _CAN.items()
}
"""The family of a call, and what may come of it: kind, failure, and for how long."""

_FULL_S: Final = 20.0
"""How long a full disk stays full, if it does."""


@dataclass(slots=True)
class _Full:
    """A disk without room.

    Attributes:
        until_s: virtual seconds; before that no write finds room.
    """

    until_s: float = 0.0


class DiskHooks(Protocol):
    """What the faults of a disk need of its machine."""

    @property
    def persistence(self) -> tuple[str, ...]:
        """In which ways the disk may keep what was not flushed."""
        ...

    def now_s(self) -> float:
        """Return virtual seconds."""
        ...

    def acting(self) -> SimulatedProcess | None:
        """Return the process whose code runs now; None for the harness itself."""
        ...

    def doom(self, process: SimulatedProcess) -> None:
        """End a process before it takes another step."""
        ...

    def cut_power(self, model: str, instant: Draws) -> None:
        """Let the machine die before anybody on it takes another step."""
        ...


@final
class DiskFaults:
    """Decides how each call of the disk ends; see `runtime.chaos.disk_log.Strikes`."""

    def __init__(self, book: FaultBook, victims: frozenset[str]) -> None:
        """`victims` names who may die in the middle of a call."""
        self._book: Final = book
        self._victims: Final = victims
        self._machine: DiskHooks | None = None
        self._full: Final = _Full()

    @property
    def _hooks(self) -> DiskHooks:
        assert self._machine is not None, "a disk is joined to a machine before it is used"
        return self._machine

    def join(self, machine: DiskHooks) -> None:
        """Be the disk of this machine from now on."""
        self._machine = machine

    @property
    def is_dying(self) -> bool:
        """Whether whoever acts now is about to die: what it still asks for is not done."""
        process = self._hooks.acting()
        return process is not None and process.is_doomed

    def strike(self, call: str, name: str) -> Failure | None:  # noqa: ARG002 - any file's
        """Return how a call fails; None if it does not."""
        process = self._hooks.acting()
        if process is None:
            return None
        if process.is_doomed:
            return _CAN[call][-1][1]
        if self._book.is_calm or self._book.is_quiet:
            return None
        if call in MUTATING and (self._dies(process, call) or self._loses_power(call)):
            return _CAN[call][-1][1]
        return self._failure(call)

    def _dies(self, process: SimulatedProcess, call: str) -> bool:
        if SERVER not in self._victims or not self._book.may("kill"):
            return False
        family = f"kill {SERVER} at disk {_FAMILIES[call]}"
        if self._book.choose(family, ("killed",)) is None:
            return False
        self._book.enter("kill", f"{process.name} dies before a disk {call}")
        self._hooks.doom(process)
        return True

    def _loses_power(self, call: str) -> bool:
        if not self._book.may("power_cut"):
            return False
        family = f"power cut at disk {_FAMILIES[call]}"
        model = self._book.choose(family, self._hooks.persistence)
        if model is None:
            return False
        self._book.enter("power_cut", f"the power goes before a disk {call}; kept: {model}")
        self._hooks.cut_power(model, self._book.instant())
        return True

    def _failure(self, call: str) -> Failure | None:
        if self._full.until_s and _CAN[call][0][0] == "disk_full":
            if self._hooks.now_s() < self._full.until_s:
                return Failure.DISK_FULL
            self._full.until_s = 0.0
        family, options = _OPTIONS[call]
        may = self._book.may
        possible = [text for text, fault in options.items() if may(fault[0])]
        picked = self._book.choose(family, possible) if possible else None
        if picked is None:
            return None
        kind, failure, span = options[picked]
        self._book.enter(kind, f"{failure} at a disk {call} {span}")
        if span == _A_WHILE:
            self._full.until_s = self._hooks.now_s() + _FULL_S
        return failure
