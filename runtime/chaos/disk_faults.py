"""Faults of a disk: the n-th call of a kind fails, once, several times or until it is repaired."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final


class Failure(StrEnum):
    """How a call fails."""

    WRITE_ERROR = "write error"
    """An I/O error; nothing of the write is done."""
    DISK_FULL = "disk full"
    """No room; nothing of the write is done."""
    TORN_WRITE = "torn write"
    """An I/O error after half of the write."""
    SYNC_ERROR = "failed flush"
    """Nothing is flushed, and what was not flushed counts as flushed from now on."""
    TRUNCATE_ERROR = "truncate error"
    READ_ERROR = "read error"
    OPEN_ERROR = "open error"
    NAME_ERROR = "directory error"
    """A name cannot be made, moved or removed, or the directory not be flushed."""


CALLS: Final[dict[Failure, frozenset[str]]] = {
    Failure.WRITE_ERROR: frozenset({"write"}),
    Failure.DISK_FULL: frozenset({"write"}),
    Failure.TORN_WRITE: frozenset({"write"}),
    Failure.SYNC_ERROR: frozenset({"sync"}),
    Failure.TRUNCATE_ERROR: frozenset({"truncate"}),
    Failure.READ_ERROR: frozenset({"read"}),
    Failure.OPEN_ERROR: frozenset({"open"}),
    Failure.NAME_ERROR: frozenset({"create", "link", "rename", "remove", "sync directory"}),
}
"""Which calls a failure can befall."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at: the call that fails, counted from 1 among those that it can befall.
        times: how many calls in a row; None fails them all until the disk is repaired.
    """

    failure: Failure
    at: int
    times: int | None = 1

    @property
    def text(self) -> str:
        """Return it in words."""
        span = {1: "once", None: "until repaired"}.get(self.times, f"{self.times} times")
        return f"{self.failure} {self.at} {span}"


@final
class Faults:
    """Lets calls fail by count.

    Attributes:
        armed: the fault; None if nothing is to fail.
        seen: calls that the armed fault could have befallen.
        fired: how often each failure really happened.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        """`fault` is armed at once; None arms nothing."""
        self.armed = fault
        self.seen = 0
        self.fired: Final[Counter[Failure]] = Counter()

    def arm(self, fault: Fault) -> None:
        """Count anew, for another fault."""
        self.armed = fault
        self.seen = 0

    def repair(self) -> None:
        """Let nothing fail any more."""
        self.armed = None

    def strike(self, call: str, name: str) -> Failure | None:  # noqa: ARG002 - the protocol's
        """Count the call; return how it fails, None if it does not."""
        fault = self.armed
        if fault is None or call not in CALLS[fault.failure]:
            return None
        self.seen += 1
        if self.seen < fault.at or (
            fault.times is not None and self.seen >= fault.at + fault.times
        ):
            return None
        self.fired[fault.failure] += 1
        return fault.failure
