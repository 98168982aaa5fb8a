"""How long a node may run: said, computed at each visit, or left to the engine."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from pi_workflows.authoring.budgets import Budget, Unlimited
from pi_workflows.authoring.context import Ctx

I = TypeVar("I")  # noqa: E741 - the letter stands for the workflow's input everywhere here
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class DefaultTimeout:
    """The engine's own budget of 900 seconds, chosen by saying nothing."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A budget known when the workflow is built.

    Attributes:
        timeout_ms: 1 to 2^53-1 milliseconds.
    """

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Computed:
    """A budget asked for at each visit.

    Attributes:
        fn: takes the node's context; `budget_ms` reads what it returns. It may be async.
        is_async: whether `fn` returns a coroutine.
    """

    fn: Callable[[Ctx[Any]], object]
    is_async: bool


Timeout: TypeAlias = DefaultTimeout | Unlimited | Fixed | Computed
TimeoutOption: TypeAlias = (
    Budget | DefaultTimeout | Callable[[Ctx[I, S]], Budget | Coroutine[Any, Any, Budget]]
)

DEFAULT_TIMEOUT = DefaultTimeout()
