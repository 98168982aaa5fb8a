"""Clients that flood a server: each bound that is taken away is missed by the scenario."""

import pytest

from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.mutations import planted_mutation
from pi_workflows.chaos.sim_scenarios import hold

SEEDS = 10
"""Each bound is met by far fewer orders than these."""


def first_break() -> InvariantBroken | None:
    for seed in range(SEEDS):
        try:
            hold("clients_flood", seed)
        except InvariantBroken as broken:
            return broken
    return None


@pytest.mark.parametrize(
    ("mutation", "complaint"),
    [
        ("batch_unbounded", "more than 128 in a batch"),
        ("unread_answers_kept", "400 requests were taken of a client that reads nothing"),
        ("frame_unbounded", "1048576 bytes and more were taken for one frame"),
    ],
)
def test_flood_reaches_each_bound_and_finds_it_gone(mutation: str, complaint: str) -> None:
    with planted_mutation(mutation):
        broken = first_break()
    assert broken is not None, "no order has met the bound"
    assert complaint in str(broken)
    assert broken.promise == "P10"


@pytest.mark.parametrize("seed", range(4))
def test_flood_is_held_to_its_share_and_every_run_ends(seed: int) -> None:
    story = [what for _, _, what, _ in hold("clients_flood", seed).trace.entries]
    assert story.count("run_completed") == 2
