"""Clients that flood a server: each bound that is taken away is missed by the scenario."""

import pytest

from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.mutations import planted_mutation
from pi_workflows.chaos.sim_scenarios import hold

SEEDS = 10
"""Each bound is met by far fewer orders than these."""


def first_break(scenario: str) -> InvariantBroken | None:
    for seed in range(SEEDS):
        try:
            hold(scenario, seed)
        except InvariantBroken as broken:
            return broken
    return None


@pytest.mark.parametrize(
    ("scenario", "mutation", "complaint"),
    [
        ("clients_flood", "batch_unbounded", "more than 128 in a batch"),
        (
            "clients_flood",
            "unread_answers_kept",
            "400 requests were taken of a client that reads nothing",
        ),
        (
            "clients_flood",
            "frame_unbounded",
            "1048576 bytes and more were taken for one frame",
        ),
        ("log_waits_for_a_reader", "crowded_log_waits", "frames; 250 may"),
    ],
)
def test_flood_reaches_each_bound_and_finds_it_gone(
    scenario: str, mutation: str, complaint: str
) -> None:
    with planted_mutation(mutation):
        broken = first_break(scenario)
    assert broken is not None, "no order has met the bound"
    assert complaint in str(broken)
    assert broken.promise == "P10"


@pytest.mark.parametrize("seed", range(4))
def test_flood_is_held_to_its_share_and_every_run_ends(seed: int) -> None:
    story = [what for _, _, what, _ in hold("clients_flood", seed).trace.entries]
    assert story.count("run_completed") == 2


@pytest.mark.parametrize("seed", range(3))
def test_look_that_the_log_cannot_wait_for_is_ended_and_every_run_ends(seed: int) -> None:
    """A child holds its snapshot for 100 s; everything is done in a fraction of that."""
    played = hold("log_waits_for_a_reader", seed)
    names = [who for _, who, what, _ in played.trace.entries if what == "started"]
    assert any(name.startswith("reader-") for name in names)
    assert sum(what == "run_completed" for _, _, what, _ in played.trace.entries) == 7
