"""The life of a run.

queued    reserved, never claimed yet. In: creation. Out: a claim, or the end.
running   a server owns it, or it is parked at a durable boundary (the queue row says which).
          A crash leaves it here; recovery parks it and a later claim goes on.
waiting   nothing may run until evidence arrives: an answer, or the outcome of an effect.
completed, failed, timed_out, cancelled   terminal and final; nothing moves out.
"""

import enum
from types import MappingProxyType
from typing import Final

from pi_workflows.protocol.states import RunStatus
from store.machines.table import Machine


class RunMove(enum.StrEnum):
    """What can happen to a run."""

    CLAIM = "claim"
    WAIT = "wait"
    COMPLETE = "complete"
    FAIL = "fail"
    TIME_OUT = "time_out"
    CANCEL = "cancel"


RUN_MACHINE: Final = Machine(
    "run",
    MappingProxyType(
        {
            (RunStatus.QUEUED, RunMove.CLAIM): RunStatus.RUNNING,
            (RunStatus.RUNNING, RunMove.CLAIM): RunStatus.RUNNING,
            (RunStatus.WAITING, RunMove.CLAIM): RunStatus.RUNNING,
            (RunStatus.RUNNING, RunMove.WAIT): RunStatus.WAITING,
            (RunStatus.RUNNING, RunMove.COMPLETE): RunStatus.COMPLETED,
            (RunStatus.QUEUED, RunMove.FAIL): RunStatus.FAILED,
            (RunStatus.RUNNING, RunMove.FAIL): RunStatus.FAILED,
            (RunStatus.WAITING, RunMove.FAIL): RunStatus.FAILED,
            (RunStatus.RUNNING, RunMove.TIME_OUT): RunStatus.TIMED_OUT,
            (RunStatus.QUEUED, RunMove.CANCEL): RunStatus.CANCELLED,
            (RunStatus.RUNNING, RunMove.CANCEL): RunStatus.CANCELLED,
            (RunStatus.WAITING, RunMove.CANCEL): RunStatus.CANCELLED,
        }
    ),
)

MOVE_TO_END: Final = MappingProxyType(
    {
        RunStatus.COMPLETED: RunMove.COMPLETE,
        RunStatus.FAILED: RunMove.FAIL,
        RunStatus.TIMED_OUT: RunMove.TIME_OUT,
        RunStatus.CANCELLED: RunMove.CANCEL,
    }
)
