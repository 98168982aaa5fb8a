"""Where a run stands with the scheduler.

queued    may be claimed once it is due.
starting  claimed; the child is being launched.
running   claimed; the child is ready.
parked    no claim. Claimable by itself unless the run waits, is paused, or `error_code` says no.
done, failed, cancelled   settled together with the run; final.
"""

import enum
from types import MappingProxyType
from typing import Final

from pi_workflows.protocol.states import QueueStatus, RunStatus
from store.machines.table import Machine


class QueueMove(enum.StrEnum):
    """What can happen to a queue row."""

    CLAIM = "claim"
    READY = "ready"
    PARK = "park"
    RESUME = "resume"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"


_LIVE: Final = (
    QueueStatus.QUEUED,
    QueueStatus.STARTING,
    QueueStatus.RUNNING,
    QueueStatus.PARKED,
)

QUEUE_MACHINE: Final = Machine(
    "queue",
    MappingProxyType(
        {
            (QueueStatus.QUEUED, QueueMove.CLAIM): QueueStatus.STARTING,
            (QueueStatus.PARKED, QueueMove.CLAIM): QueueStatus.STARTING,
            (QueueStatus.STARTING, QueueMove.READY): QueueStatus.RUNNING,
            (QueueStatus.STARTING, QueueMove.PARK): QueueStatus.PARKED,
            (QueueStatus.RUNNING, QueueMove.PARK): QueueStatus.PARKED,
            (QueueStatus.PARKED, QueueMove.RESUME): QueueStatus.QUEUED,
        }
        | {(state, QueueMove.FINISH): QueueStatus.DONE for state in _LIVE}
        | {(state, QueueMove.FAIL): QueueStatus.FAILED for state in _LIVE}
        | {(state, QueueMove.CANCEL): QueueStatus.CANCELLED for state in _LIVE}
    ),
)

SETTLEMENT: Final = MappingProxyType(
    {
        RunStatus.COMPLETED: QueueMove.FINISH,
        RunStatus.FAILED: QueueMove.FAIL,
        RunStatus.TIMED_OUT: QueueMove.FAIL,
        RunStatus.CANCELLED: QueueMove.CANCEL,
    }
)
