"""The life of a follow-up: a prompt for work after the success of its run.

queued     accepted; kept over the completion of its run. That it was sent is its message's fact.
removed    taken back before it was sent; final.
cancelled  its run ended without success before it was sent; final.
"""

import enum
from types import MappingProxyType
from typing import Final

from pi_workflows.protocol.states import FollowUpStatus
from store.machines.table import Machine


class FollowUpMove(enum.StrEnum):
    """What can happen to a follow-up."""

    REMOVE = "remove"
    CANCEL = "cancel"


FOLLOW_UP_MACHINE: Final = Machine(
    "follow-up",
    MappingProxyType(
        {
            (FollowUpStatus.QUEUED, FollowUpMove.REMOVE): FollowUpStatus.REMOVED,
            (FollowUpStatus.QUEUED, FollowUpMove.CANCEL): FollowUpStatus.CANCELLED,
        }
    ),
)
