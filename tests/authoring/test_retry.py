"""`Retry(...)`: what is sound, how others are refused, how long it waits, what is stored of it."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_workflows.authoring import Definition, DefinitionError, Retry, Workflow
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.retry import ATTEMPTS_MAX, WAIT_MS_MAX, RetryRule
from pi_workflows.protocol.states import StepOutcome


def built(retry: Any) -> Definition:  # noqa: ANN401 - wrong ones too
    wf = Workflow("flow")

    @wf.compute(retry=retry)
    def node() -> str:
        return ""

    return wf.build(start=node)


def test_a_retry_is_read_back_from_the_snapshot_and_is_part_of_the_digest() -> None:
    retry = Retry(attempts=5, backoff=timedelta(seconds=2), factor=1.5, outcomes=["failed"])
    definition = built(retry)
    rule = definition.nodes["node"].retry
    assert rule == RetryRule(5, 2_000, 1.5, 300_000, frozenset({StepOutcome.FAILED}))
    assert DefinitionSnapshot.parse(definition.snapshot()).nodes["node"].retry == rule
    digests = {definition.digest(), built(None).digest(), built(Retry(attempts=5)).digest()}
    assert len(digests) == 3


def test_a_node_without_retry_has_none_in_its_snapshot() -> None:
    """Definitions of before keep their digest."""
    assert '"retry"' not in str(built(None).snapshot())


@pytest.mark.parametrize(
    ("retry", "says"),
    [
        (3, "retry takes Retry(attempts=...), not int."),
        (Retry(attempts=0), "Retry(attempts=...)"),
        (Retry(attempts=ATTEMPTS_MAX + 1), "Retry(attempts=...)"),
        (Retry(attempts=True), "Retry(attempts=...)"),
        (Retry(attempts=2, backoff=-1), "Retry(backoff=...)"),
        (Retry(attempts=2, backoff=float("nan")), "Retry(backoff=...)"),
        (Retry(attempts=2, backoff=timedelta(days=31)), "Retry(backoff=...)"),
        (Retry(attempts=2, backoff="1"), "Retry(backoff=...)"),  # type: ignore[arg-type]
        (Retry(attempts=2, max_backoff=float("inf")), "Retry(max_backoff=...)"),
        (Retry(attempts=2, backoff=10, max_backoff=9), "not below backoff"),
        (Retry(attempts=2, factor=0.5), "Retry(factor=...)"),
        (Retry(attempts=2, factor=float("nan")), "Retry(factor=...)"),
        (Retry(attempts=2, outcomes=()), "Retry(outcomes=...)"),
        (Retry(attempts=2, outcomes=["ok"]), "Retry(outcomes=...)"),  # type: ignore[list-item]
        (Retry(attempts=2, outcomes="failed"), "Retry(outcomes=...)"),  # type: ignore[arg-type]
    ],
)
def test_an_unsound_retry_is_refused_when_built(retry: object, says: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        built(retry)
    (problem,) = refused.value.problems
    assert problem.code == "DEFINITION_INVALID"
    assert says in problem.message


@given(
    backoff_ms=st.integers(0, WAIT_MS_MAX),
    factor=st.floats(1, 100),
    failed_tries=st.integers(1, ATTEMPTS_MAX),
)
def test_waits_grow_up_to_their_bound(backoff_ms: int, factor: float, failed_tries: int) -> None:
    rule = RetryRule(
        ATTEMPTS_MAX, backoff_ms, factor, WAIT_MS_MAX, frozenset({StepOutcome.FAILED})
    )
    assert rule.wait_ms(1) == backoff_ms
    assert backoff_ms <= rule.wait_ms(failed_tries) <= rule.wait_ms(failed_tries + 1)
    assert rule.wait_ms(failed_tries + 1) <= WAIT_MS_MAX


def test_the_shortest_wait_is_not_rounded_to_none() -> None:
    rule = built(Retry(attempts=2, backoff=0.0001)).nodes["node"].retry
    assert rule is not None
    assert rule.wait_ms(1) == 1
