"""Stopping where an invariant fails, with everything it has looked at still there."""

import dataclasses
from collections.abc import Callable
from functools import wraps
from typing import Any

from runtime.chaos.scenario import Plan, Scenario

Check = Callable[[Any], None]


def stopping_where_it_breaks(
    scenario: Scenario[Any], stop: Callable[[AssertionError], None]
) -> Scenario[Any]:
    """Return the same scenario, whose invariants call `stop` with the error before it leaves."""

    def body(plan: Plan[Any, Any]) -> None:
        scenario.body(plan)
        for checks in (plan.always_checks, plan.final_checks):
            for name, check in checks.items():
                checks[name] = _watched(check, stop)

    return dataclasses.replace(scenario, body=body)


def _watched(check: Check, stop: Callable[[AssertionError], None]) -> Check:
    @wraps(check)
    def watched(look: object) -> None:
        try:
            check(look)
        except AssertionError as error:
            stop(error)
            raise

    return watched
