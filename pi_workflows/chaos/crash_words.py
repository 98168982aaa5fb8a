"""The decisions of the engine `crash` by name, and how a power cut is told."""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from pi_workflows.chaos.crash_life import Life
from runtime.chaos.disk_log import Operation
from runtime.chaos.disk_survivors import Persistence
from runtime.chaos.outcome import Moment

NONE: Final = "none"

POWER_CUT: Final = "power cut"
"""After which operation the power goes; in the life after a first fault, if there is one."""

SURVIVES: Final = "what survives"
TEARING: Final = "tearing"
TEARINGS: Final = 64
"""How many ways there are in which one power cut may tear the same writes."""

FIRST: Final = "first fault"
FIRST_AT: Final = "first fault after"
KILLED: Final = "server killed"
FLUSH_FAILED: Final = "flush failed, server killed"

DISK_FAULT: Final = "disk fault"
DISK_FAULT_AT: Final = "disk fault at call"
DISK_FAULT_IN: Final = "disk fault in"
DISK_FAULT_LASTS: Final = "disk fault lasts"
CALLS_MAX: Final = 20_000
ONCE: Final = "once"
LASTING: Final = "until repaired"
FIRST_LIFE: Final = "the first life"
NEXT_START: Final = "the next start"

_SHOWN: Final = 8
"""Operations of the disk that a timeline shows before a power cut."""

_COMMIT: Final = re.compile(r"\bcommit (\d+)$")
_PLACE: Final = re.compile(r"^(?:commit|checkpoint) (\d+)\b")


def decided(family: str, option: str, benign: str) -> dict[str, str]:
    """Return a decision as it is kept: not at all if it is the benign one."""
    return {} if option == benign else {f"{family}#1": option}


def cut_choices(label: str, persistence: Persistence, tearing: int) -> dict[str, str]:
    """Return the decisions that make a power cut."""
    return {
        **decided(POWER_CUT, label, NONE),
        **decided(SURVIVES, persistence, Persistence.KEPT),
        **decided(TEARING, str(tearing), "0"),
    }


def moments_before(life: Life, position: int) -> list[Moment]:
    """Return what the actors did before a position of the disk, as far as commits tell."""
    if position >= life.position:
        return list(life.moments)
    place = _PLACE.match(life.log.operations[position - 1].label) if position else None
    last = int(place.group(1)) if place else 0
    if life.log.operations[position - 1].label.startswith("end "):
        return list(life.moments)
    shown: list[Moment] = []
    for moment in life.moments:
        commit = _COMMIT.search(moment.result)
        if commit and int(commit.group(1)) > last:
            break
        shown.append(moment)
    return shown


def disk_moments(operations: Sequence[Operation], at_ms: int) -> list[Moment]:
    """Return what the disk did last."""
    return [
        Moment(at_ms, "disk", operation.label, _said(operation))
        for operation in operations[-_SHOWN:]
    ]


def digest_of(moments: Sequence[Moment], operations: Sequence[Operation], last: str) -> str:
    """Return a digest of a whole trace, every byte that was written included."""
    digest = hashlib.sha256(last.encode())
    for moment in moments:
        digest.update(repr(moment).encode())
    for operation in operations:
        digest.update(f"{operation.label} {operation.offset} {operation.failed}".encode())
        digest.update(operation.data)
    return digest.hexdigest()


def _said(operation: Operation) -> str:
    if operation.data:
        return f"{len(operation.data)} bytes at {operation.offset}"
    return "failed" if operation.failed else ""
