"""The life of an outbox row.

pending    written with its source; nobody acts on it yet, or it came back to be tried again. One
           that is observed and had a try is looked for before the next one.
applying   exactly one numbered attempt may be acting on the world right now.
applied, rejected, cancelled   settled and final.
ambiguous  the world may or may not have changed. Never retried by itself; only evidence or an
           operator moves it out. It keeps `settled_at` null: it is honest, not terminal.
"""

import enum
from types import MappingProxyType
from typing import Final

from pi_workflows.protocol.states import EffectStatus
from store.machines.table import Machine


class EffectMove(enum.StrEnum):
    """What can happen to an effect."""

    TAKE = "take"
    APPLY = "apply"
    REJECT = "reject"
    GIVE_BACK = "give_back"
    LOSE_SIGHT = "lose_sight"
    CANCEL = "cancel"
    APPLY_LOCALLY = "apply_locally"
    RETRY = "retry"
    FIND_APPLIED = "find_applied"
    FIND_UNKNOWN = "find_unknown"


EFFECT_MACHINE: Final = Machine(
    "effect",
    MappingProxyType(
        {
            (EffectStatus.PENDING, EffectMove.TAKE): EffectStatus.APPLYING,
            (EffectStatus.APPLYING, EffectMove.APPLY): EffectStatus.APPLIED,
            (EffectStatus.APPLYING, EffectMove.REJECT): EffectStatus.REJECTED,
            (EffectStatus.APPLYING, EffectMove.GIVE_BACK): EffectStatus.PENDING,
            (EffectStatus.APPLYING, EffectMove.LOSE_SIGHT): EffectStatus.AMBIGUOUS,
            (EffectStatus.PENDING, EffectMove.CANCEL): EffectStatus.CANCELLED,
            (EffectStatus.PENDING, EffectMove.APPLY_LOCALLY): EffectStatus.APPLIED,
            (EffectStatus.PENDING, EffectMove.FIND_APPLIED): EffectStatus.APPLIED,
            (EffectStatus.PENDING, EffectMove.FIND_UNKNOWN): EffectStatus.AMBIGUOUS,
            (EffectStatus.AMBIGUOUS, EffectMove.APPLY): EffectStatus.APPLIED,
            (EffectStatus.AMBIGUOUS, EffectMove.REJECT): EffectStatus.REJECTED,
            (EffectStatus.AMBIGUOUS, EffectMove.RETRY): EffectStatus.PENDING,
        }
    ),
)
