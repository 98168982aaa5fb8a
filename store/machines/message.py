"""The life of a message to a conversation.

pending    in the conversation's order; its source may still withdraw it.
cancelled  withdrawn. A conversation that shows it all the same is believed.
sent       found in the conversation; final.
"""

import enum
from types import MappingProxyType
from typing import Final

from pi_workflows.protocol.states import MessageStatus
from store.machines.table import Machine


class MessageMove(enum.StrEnum):
    """What can happen to a message."""

    FIND = "find"
    CANCEL = "cancel"


MESSAGE_MACHINE: Final = Machine(
    "message",
    MappingProxyType(
        {
            (MessageStatus.PENDING, MessageMove.FIND): MessageStatus.SENT,
            (MessageStatus.PENDING, MessageMove.CANCEL): MessageStatus.CANCELLED,
            (MessageStatus.CANCELLED, MessageMove.FIND): MessageStatus.SENT,
        }
    ),
)
