"""Declarations of outside effects: how a crash in the middle of one is to be handled."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, overload

from pi_workflows.authoring.budgets import budget_ms
from pi_workflows.authoring.callables import with_context, yields
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.observation import Observation

I = TypeVar("I")  # noqa: E741 - the letter stands for the workflow's input everywhere here

EFFECT_TYPE_CHARS_MAX: Final = 256
OBSERVE_DEFAULT_S: Final = 30.0

Observed: TypeAlias = Observation[Any] | Coroutine[Any, Any, Observation[Any]]
"""What an observing function gives, at once or as a coroutine."""


@dataclass(frozen=True, slots=True)
class EffectSpec(Generic[I]):
    """What an action or shell node does to the world.

    Attributes:
        effect_type: the author's stable name for the effect, 1 to 256 characters, not blank.
        recovery: `idempotent` runs again after a crash; `observe` looks first and runs again only
            when it is not there; `manual` becomes ambiguous and parks the run until an operator
            decides.
        look: the observing function; None for all but `observe`, and only for them.
        look_timeout: seconds or a duration above 0 that one look may take.
    """

    effect_type: str
    recovery: Literal["idempotent", "observe", "manual"]
    look: Callable[[Ctx[I]], Observed] | Callable[[], Observed] | None = None
    look_timeout: float | timedelta = OBSERVE_DEFAULT_S


def idempotent(effect_type: str) -> EffectSpec[Any]:
    """Declare an effect that may run again without harm, because its target knows its key.

    Args:
        effect_type: stable name, 1 to 256 characters; part of the effect's key.
    """
    return EffectSpec(effect_type, "idempotent")


@overload
def observe(
    effect_type: str,
    fn: Callable[[Ctx[I]], Observed],
    *,
    timeout: float | timedelta = OBSERVE_DEFAULT_S,
) -> EffectSpec[I]: ...
@overload
def observe(
    effect_type: str,
    fn: Callable[[], Observed],
    *,
    timeout: float | timedelta = OBSERVE_DEFAULT_S,
) -> EffectSpec[Any]: ...
def observe(
    effect_type: str,
    fn: Callable[..., Observed],
    *,
    timeout: float | timedelta = OBSERVE_DEFAULT_S,
) -> EffectSpec[Any]:
    """Declare an effect whose target can be asked whether it is there.

    After a try whose end nobody saw, `fn` is called before anything is sent again. `ctx.effect`
    in it names the effect and its newest try. What it raises, and a look that takes too long,
    count as `unknown()`.

    Args:
        effect_type: stable name, 1 to 256 characters; part of the effect's key.
        fn: returns `applied(value)`, `absent()` or `unknown()`; it takes the node's context, or
            nothing, and may be async. It must only look.
        timeout: seconds or a timedelta that one look may take, above 0.
    """
    return EffectSpec(effect_type, "observe", fn, timeout)


def manual(effect_type: str) -> EffectSpec[Any]:
    """Declare an effect whose outcome cannot be proven after a crash; it never runs again alone.

    Args:
        effect_type: stable name, 1 to 256 characters; part of the effect's key.
    """
    return EffectSpec(effect_type, "manual")


def effect_problem(effect: object) -> str | None:
    """Return what is wrong with a declared effect, or None."""
    if not isinstance(effect, EffectSpec):
        return 'declare effect=idempotent("..."), observe("...", look) or manual("...").'
    name: object = effect.effect_type
    if not isinstance(name, str) or not name.strip():
        return "the effect's type is blank; name it."
    if len(name.encode("utf-16-le", "surrogatepass")) // 2 > EFFECT_TYPE_CHARS_MAX:
        return f"the effect's type is longer than {EFFECT_TYPE_CHARS_MAX} characters."
    return _look_problem(effect)


def _look_problem(effect: EffectSpec[Any]) -> str | None:
    look: object = effect.look
    if effect.recovery != "observe":
        return None if look is None else "only observe(...) takes a function that looks."
    if not callable(look) or with_context(look) is None:
        return "observe takes a function of the context, or of nothing."
    if yields(look):
        return "the observing function yields; it has to return applied, absent or unknown."
    try:
        bound = budget_ms(effect.look_timeout)
    except (TypeError, ValueError) as error:
        return f"observe(timeout=...): {error}"
    return None if bound is not None else "observe(timeout=...): a look has to end; name seconds."
