"""Timeouts: seconds, durations, none, or computed at each visit."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pi_workflows import (
    Ctx,
    DefinitionError,
    Unlimited,
    Workflow,
)
from pi_workflows.authoring.budgets import budget_ms
from pi_workflows.authoring.timeouts import Computed, DefaultTimeout, Fixed


def refusal(build: Callable[[], object]) -> DefinitionError:
    """Return the error that `build` raises."""
    with pytest.raises(DefinitionError) as caught:
        build()
    return caught.value


@pytest.mark.parametrize(
    ("timeout", "stored"),
    [
        (10, Fixed(10_000)),
        (0.5, Fixed(500)),
        (0.00001, Fixed(1)),
        (timedelta(minutes=2), Fixed(120_000)),
        (None, Unlimited()),
        (Unlimited(), Unlimited()),
    ],
)
def test_a_timeout_is_seconds_a_duration_or_none(
    timeout: Any,  # noqa: ANN401 - any kind
    stored: object,
) -> None:
    wf = Workflow("flow")

    @wf.compute(timeout=timeout)
    def only() -> None: ...

    assert wf.build(start=only).nodes["only"].timeout == stored


def test_a_timeout_left_out_is_the_default_of_15_minutes() -> None:
    wf = Workflow("flow")

    @wf.compute()
    def only() -> None: ...

    assert wf.build(start=only).nodes["only"].timeout == DefaultTimeout()


def test_a_computed_timeout_may_take_the_context_or_nothing_and_be_async() -> None:
    wf = Workflow("flow")

    async def later(ctx: Ctx[Any]) -> int:
        return ctx.visit

    seven: Any = lambda: 7  # noqa: E731 - a function without the context, which types forbid

    @wf.compute(timeout=seven)
    def first() -> None: ...

    @wf.compute(timeout=later)
    def second() -> None: ...

    wf.edge(first, second)
    nodes = wf.build(start=first).nodes
    plain, asynchronous = nodes["first"].timeout, nodes["second"].timeout
    assert isinstance(plain, Computed)
    assert not plain.is_async
    assert plain.fn(None) == 7  # type: ignore[arg-type]
    assert isinstance(asynchronous, Computed)
    assert asynchronous.is_async


@pytest.mark.parametrize(
    "timeout",
    [0, -1, float("nan"), float("inf"), 10**400, True, "5", timedelta(0), lambda _a, _b: 1],
)
def test_a_timeout_that_is_not_finite_and_positive_is_refused(
    timeout: Any,  # noqa: ANN401 - wrong on purpose
) -> None:
    wf = Workflow("flow")

    @wf.compute(timeout=timeout)
    def only() -> None: ...

    assert "timeout" in refusal(lambda: wf.build(start=only)).message


def test_a_computed_budget_follows_the_same_rules() -> None:
    assert budget_ms(1.5) == 1500
    assert budget_ms(None) is None
    with pytest.raises(ValueError, match="above 0"):
        budget_ms(0)
    with pytest.raises(TypeError, match="not a str"):
        budget_ms("5")
