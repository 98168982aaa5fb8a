"""The shipped scenarios hold with a real process for each actor, on one file, and with kills."""

import pytest

from pi_workflows.chaos.procs_engine import KILLS, ORDERS, ProcsEngine
from pi_workflows.chaos.registry import SCENARIOS
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Tally, Verdict

FEW = 4


def explored(name: str, *, orders: int, kills: int) -> dict[str, Tally]:
    goals = {ORDERS: orders, KILLS: kills}
    tallies = ProcsEngine().explore(SCENARIOS[name], Wanted(goals=goals))
    for tally in tallies:
        assert tally.findings == []
        assert tally.verdict is Verdict.HELD
    return {tally.unit: tally for tally in tallies}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, shipped in SCENARIOS.items()
        if "procs" in shipped.engines and name != "many_runs_recovered"
    ],
)
def test_scenario_holds_between_processes(name: str) -> None:
    assert explored(name, orders=FEW, kills=FEW)[ORDERS].explored == FEW


def test_of_three_processes_that_claim_at_once_one_wins_whoever_is_killed() -> None:
    tallies = explored("first_come", orders=100, kills=50)
    assert tallies[KILLS].faults["kill"] == tallies[KILLS].explored


def test_process_killed_before_its_commit_leaves_nothing_and_after_it_fact_and_effect() -> None:
    """A try and its effect are one commit, at each point of which the process is killed."""
    tallies = explored("recorded_before_it_is_done", orders=1, kills=60)
    assert tallies[KILLS].faults["kill"] == tallies[KILLS].explored


def test_recovery_of_250_runs_killed_in_the_middle_is_finished_by_the_next_one() -> None:
    tallies = explored("many_runs_recovered", orders=1, kills=3)
    assert tallies[KILLS].faults["kill"] == tallies[KILLS].explored
