"""Callers who stop waiting: each thing that the scenario holds against the store can be broken."""

import pytest

from pi_workflows.chaos.mutant import try_out
from pi_workflows.chaos.playing import play
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.chaos.store_callers import StoreCallers
from pi_workflows.chaos.swarm import Swarm
from pi_workflows.chaos.trials import Trial

SEEDS = range(60)
"""Each fault here is met by far fewer."""


@pytest.mark.parametrize(
    ("mutation", "promise"),
    [
        ("cancelled_and_carried_out", "P7"),
        ("answered_cancelled_after_commit", "P7"),
        ("answered_and_lost", "P1"),
        ("shown_before_the_commit", "P1"),
        ("missing_savepoint", "P2"),
        ("unknown_told_as_not_done", "P6"),
    ],
)
def test_store_that_tells_something_else_than_it_does_is_found(
    mutation: str, promise: str
) -> None:
    trial = Trial(
        mutation=mutation, ref="stops_waiting", engine="sim", promise=promise, seeds=SEEDS
    )
    told = try_out(trial)
    assert told.is_caught, (told.error, told.beside)


@simulation()
def killed_beneath_its_callers(s: Stage) -> None:
    """The process of the callers dies, and nobody tells them anything any more."""
    s.keeps_server = False
    callers = StoreCallers()

    @s.actor()
    async def process(world: SimulatedWorld) -> None:
        await callers.play(world)

    s.faults(kill=1)

    @s.finally_
    def everybody_was_told(seen: Seen) -> None:
        callers.check(seen)
        callers.check_all_told()


def test_caller_who_is_told_nothing_is_found() -> None:
    for seed in SEEDS:
        error = play(killed_beneath_its_callers, seed, Swarm(seed)).error
        if error is not None:
            assert "P7: nobody has told what became of caller-" in str(error)
            return
    raise AssertionError("nobody was left without an answer")
