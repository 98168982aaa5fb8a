"""The product's core in one trio loop: what must hold whatever dies, sleeps or comes late."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_workflows.chaos.sim_scenarios import hold, whole_system

SEEDS_EACH = 2


@pytest.mark.parametrize("seed", range(SEEDS_EACH))
@pytest.mark.parametrize("name", whole_system())
def test_core_holds_in_this_order(name: str, seed: int) -> None:
    """The whole server tree under a mock clock, with inline commits and simulated children.

    Every run completes once, nothing acknowledged is lost, nothing recorded is done again, event
    revisions have no gap, `state verify` is clean, no process and no task is left.
    """
    hold(name, seed)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(whole_system())), seed=st.integers(0, 2**64))
def test_core_holds_in_any_order(name: str, seed: int) -> None:
    hold(name, seed)


def test_run_alone_records_exactly_what_a_run_records() -> None:
    simulated = hold("one_run", 0)
    events = [what for _, who, what, _ in simulated.trace.entries if who == "database"]
    assert events == [
        "run_created",
        "lease.claimed",
        "run_started",
        "node_started",
        "node_finished",
        "node_started",
        "effect.reserved",
        "effect.applied",
        "node_finished",
        "node_started",
        "node_finished",
        "run_completed",
        "effect.created",
        "effect.applied",
    ]


def test_lease_that_lapsed_in_a_sleep_is_claimed_again() -> None:
    """The run goes on under a later generation."""
    generations: set[int] = set()
    for seed in range(6):
        simulated = hold("machine_sleeps", seed)
        for _, who, what, text in simulated.trace.entries:
            if who == "database" and what == "lease.claimed":
                generations.add(int(text.split(", ")[7]))
    assert min(generations) == 1
    assert max(generations) > 1
