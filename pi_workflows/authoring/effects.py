"""Declarations of outside effects: how a crash in the middle of one is to be handled."""

from dataclasses import dataclass
from typing import Final, Literal

EFFECT_TYPE_CHARS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class EffectSpec:
    """What an action or shell node does to the world.

    Attributes:
        effect_type: the author's stable name for the effect, 1 to 256 characters, not blank.
        recovery: `idempotent` runs again after a crash; `manual` becomes ambiguous and parks the
            run until an operator decides.
    """

    effect_type: str
    recovery: Literal["idempotent", "manual"]


def idempotent(effect_type: str) -> EffectSpec:
    """Declare an effect that may run again without harm, because its target knows its key.

    Args:
        effect_type: stable name, 1 to 256 characters; part of the effect's key.
    """
    return EffectSpec(effect_type, "idempotent")


def manual(effect_type: str) -> EffectSpec:
    """Declare an effect whose outcome cannot be proven after a crash; it never runs again alone.

    Args:
        effect_type: stable name, 1 to 256 characters; part of the effect's key.
    """
    return EffectSpec(effect_type, "manual")


def effect_problem(effect: object) -> str | None:
    """Return what is wrong with a declared effect, or None."""
    if not isinstance(effect, EffectSpec):
        return 'declare effect=idempotent("...") or manual("...").'
    name: object = effect.effect_type
    if not isinstance(name, str) or not name.strip():
        return "the effect's type is blank; name it."
    if len(name.encode("utf-16-le", "surrogatepass")) // 2 > EFFECT_TYPE_CHARS_MAX:
        return f"the effect's type is longer than {EFFECT_TYPE_CHARS_MAX} characters."
    return None
