"""A node with a declared retry, its runner killed in the middle: the count of its tries holds."""

from typing import Final

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import FIRST, STEPS, THIRD

RETRIED: Final = """
@wf.action(effect=idempotent("second.done"), retry=Retry(attempts=3, backoff=BACKOFF))
def second(ctx: Ctx) -> str:
    place = meet("second", attempt=ctx.attempt, number=ctx.effect.attempt_number)
    if ctx.attempt < 3:
        raise RuntimeError(f"no, not at try {ctx.attempt}")
    return place

"""

HANGING: Final = """
@wf.action(effect=EFFECT, timeout=0.2, retry=Retry(attempts=2, backoff=0))
def second(ctx: Ctx) -> str:
    if ctx.attempt == 1:
        meet("second")
    return "second"

"""


@pytest.mark.parametrize("effect", ['idempotent("x")', 'observe("x", absent)'])
def test_code_that_ignores_its_deadline_is_left_behind_and_tried_again(
    home: Home, effect: str
) -> None:
    """Its process is gone before the next try begins, which is counted as the second.

    Case: D18.
    """
    home.servers.start()
    run_id = home.run(FIRST + HANGING.replace("EFFECT", effect) + THIRD)
    node = home.meetings.arrive("second")
    home.assert_completed(run_id, STEPS, "second three")
    node.assert_gone()
    tries = home.database.rows(
        "SELECT visit, attempt_number, status FROM node_attempts"
        " WHERE run_id = ? AND node_id = 'second' ORDER BY attempt_number",
        run_id,
    )
    assert tries == [(1, 1, "timed_out"), (1, 2, "completed")]


@pytest.mark.parametrize("backoff", ["0", "0.05"])
def test_killed_runner_uses_up_no_try_and_the_effect_keeps_its_numbers(
    home: Home, backoff: str
) -> None:
    """Fail, die, fail, succeed: the author sees tries 1, 2, 2, 3; the effect numbers all four.

    Case: D18.
    """
    home.servers.start()
    run_id = home.run(FIRST + RETRIED.replace("BACKOFF", backoff) + THIRD)
    seen: list[tuple[int, int]] = []
    for number in range(1, 5):
        node = home.meetings.arrive("second")
        seen.append((node.facts["attempt"], node.facts["number"]))
        if number == 2:
            node.runner.kill()
        else:
            node.go()
    assert seen == [(1, 1), (2, 2), (2, 3), (3, 4)]
    home.assert_completed(run_id, STEPS, "second three")
    (step,) = [step for step in home.show(run_id)["steps"] if step["nodeId"] == "second"]
    assert step["failedTries"] == 2
    outcomes = home.database.rows(
        "SELECT a.attempt_number, a.outcome FROM effect_attempts AS a"
        " JOIN effects AS e USING (effect_id) WHERE e.effect_type = 'second.done'"
        " ORDER BY a.attempt_number"
    )
    assert [outcome for _, outcome in outcomes] == [
        "rejected",
        "interrupted",
        "rejected",
        "applied",
    ]
