"""The life of one try of one node.

pending, running   a runner works on it. A crash makes it `interrupted`.
waiting            an answer or the outcome of an effect is awaited; survives crashes.
interrupted        its runner is gone, or an operator has said what became of the effect for which
                   it waited. A successor attempt of the same visit makes it `cancelled`.
completed, failed, timed_out, cancelled   final; the first three and a routed end are steps.
"""

import enum
from types import MappingProxyType
from typing import Final

from pi_workflows.protocol.states import AttemptStatus
from store.machines.table import Machine


class AttemptMove(enum.StrEnum):
    """What can happen to an attempt."""

    START = "start"
    WAIT = "wait"
    INTERRUPT = "interrupt"
    COMPLETE = "complete"
    FAIL = "fail"
    TIME_OUT = "time_out"
    CANCEL = "cancel"


_UNFINISHED: Final = (
    AttemptStatus.PENDING,
    AttemptStatus.RUNNING,
    AttemptStatus.WAITING,
    AttemptStatus.INTERRUPTED,
)

ATTEMPT_MACHINE: Final = Machine(
    "attempt",
    MappingProxyType(
        {
            (AttemptStatus.PENDING, AttemptMove.START): AttemptStatus.RUNNING,
            (AttemptStatus.RUNNING, AttemptMove.COMPLETE): AttemptStatus.COMPLETED,
            (AttemptStatus.RUNNING, AttemptMove.FAIL): AttemptStatus.FAILED,
            (AttemptStatus.RUNNING, AttemptMove.TIME_OUT): AttemptStatus.TIMED_OUT,
            (AttemptStatus.RUNNING, AttemptMove.WAIT): AttemptStatus.WAITING,
            (AttemptStatus.INTERRUPTED, AttemptMove.WAIT): AttemptStatus.WAITING,
            (AttemptStatus.WAITING, AttemptMove.COMPLETE): AttemptStatus.COMPLETED,
            (AttemptStatus.WAITING, AttemptMove.FAIL): AttemptStatus.FAILED,
            (AttemptStatus.WAITING, AttemptMove.TIME_OUT): AttemptStatus.TIMED_OUT,
            (AttemptStatus.PENDING, AttemptMove.INTERRUPT): AttemptStatus.INTERRUPTED,
            (AttemptStatus.RUNNING, AttemptMove.INTERRUPT): AttemptStatus.INTERRUPTED,
            (AttemptStatus.WAITING, AttemptMove.INTERRUPT): AttemptStatus.INTERRUPTED,
        }
        | {(state, AttemptMove.CANCEL): AttemptStatus.CANCELLED for state in _UNFINISHED}
    ),
)

MOVE_TO_OUTCOME: Final = MappingProxyType(
    {
        AttemptStatus.COMPLETED: AttemptMove.COMPLETE,
        AttemptStatus.FAILED: AttemptMove.FAIL,
        AttemptStatus.TIMED_OUT: AttemptMove.TIME_OUT,
        AttemptStatus.CANCELLED: AttemptMove.CANCEL,
    }
)
