"""The engine `sim`: figures, findings, and an exploration that is repeated from its choices."""

import pytest

from pi_workflows.chaos.outside import Outside
from pi_workflows.chaos.playing import play
from pi_workflows.chaos.registry import SCENARIOS, engine
from pi_workflows.chaos.sim_engine import SimEngine
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.chaos.swarm import Swarm
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Verdict
from runtime.simulation.trace import Trace

ONE = SCENARIOS["one_run"]
SENT = SCENARIOS["sent_once"]
SEEDS = range(12)


def test_engine_is_found_by_its_name() -> None:
    assert isinstance(engine("sim"), SimEngine)
    assert engine("sim").name == "sim"


def test_seeds_are_explored_and_counted() -> None:
    told: list[int] = []
    wanted = Wanted(seeds=range(3), tell=lambda _, more: told.append(more))
    (tally,) = SimEngine().explore(SCENARIOS["runner_dies"], wanted)
    assert (tally.engine, tally.unit, tally.explored, tally.promised) == ("sim", "seeds", 3, 3)
    assert tally.verdict is Verdict.HELD
    assert not tally.complete
    assert tally.faults["kill"]
    assert tally.checks["all_added_up"] == 3
    assert sum(told) == 3


def test_parts_share_the_seeds() -> None:
    parts = [
        SimEngine().explore(ONE, Wanted(seeds=range(5), part=(part, 2)))[0] for part in (0, 1)
    ]
    assert [part.explored for part in parts] == [3, 2]
    first, second = parts
    first.add(second)
    assert first.verdict is Verdict.HELD


def test_goal_of_a_campaign_says_how_many() -> None:
    (tally,) = SimEngine().explore(ONE, Wanted(goals={"seeds": 2}))
    assert (tally.explored, tally.promised) == (2, 2)


def test_budget_that_is_spent_leaves_seeds_out() -> None:
    (tally,) = SimEngine().explore(ONE, Wanted(seeds=range(3), budget_s=0))
    assert tally.explored == 0
    assert tally.verdict is Verdict.BUDGET_ENDED


def test_broken_promise_is_found_and_repeated_from_its_choices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The effect is sent without a look for it; the finding tells which faults it takes."""
    monkeypatch.setattr(Outside, "has", lambda *_: False)
    (tally,) = SimEngine().explore(SENT, Wanted(seeds=SEEDS, findings_max=1))
    assert tally.verdict is Verdict.VIOLATED
    (finding,) = tally.findings
    assert finding.promise == "P5"
    assert "carried out more than once" in finding.complaint
    assert finding.choices
    repeated = SimEngine().repeat(SENT, finding.choices, finding.seed)
    assert repeated.finding == finding
    assert repeated.digest == finding.digest
    assert not repeated.unused
    lanes = {moment.lane.partition("-")[0] for moment in repeated.timeline}
    assert {"server", "runner", "faults", "outside"} <= lanes
    done = [(it.what, it.result) for it in repeated.timeline if it.lane == "outside"]
    [twice] = {key for what, key in done if what == "applied again"}
    assert [what for what, key in done if key == twice][:2] == ["applied", "applied again"]
    generations = [it.generation for it in repeated.timeline if it.what == "lease.claimed"]
    assert generations
    assert all(generations)


def test_choices_that_no_longer_come_up_are_named() -> None:
    choices = {"kill runner#3": "oldest", "kill dragon#1": "killed"}
    repeated = SimEngine().repeat(SCENARIOS["runner_dies"], choices, 0)
    assert repeated.finding is None
    assert repeated.unused == {"kill dragon#1"}


def test_timeline_can_be_had_up_to_a_step() -> None:
    whole = SimEngine().repeat(ONE, {}, 0)
    part = SimEngine().repeat(ONE, {}, 0, until=5)
    assert part.timeline == whole.timeline[:5]
    assert part.digest == whole.digest


def test_exploration_that_goes_another_way_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(range(10))
    monkeypatch.setattr(Trace, "digest", lambda _: str(next(digests)))
    (tally,) = SimEngine().explore(ONE, Wanted(seeds=range(1)))
    assert tally.not_deterministic == ["seed 0"]
    assert tally.verdict is Verdict.NOT_DETERMINISTIC


def test_fault_that_never_fired_is_reported() -> None:
    @simulation()
    def calm(s: Stage) -> None:
        s.source("tally", "")
        ONE.body(s)
        s.faults(kill=1)
        s.victims = frozenset()

    (tally,) = SimEngine().explore(calm, Wanted(seeds=range(1)))
    assert tally.blind_spots == ["fault kill never fired"]


def test_one_that_is_left_out_of_the_choices_shifts_no_other() -> None:
    storm = SCENARIOS["storm"]
    played = play(storm, 2, Swarm(2))
    kept = dict(played.choices.unusual)
    del kept[min(kept)]
    repeated = SimEngine().repeat(storm, kept, 2)
    assert repeated.finding is None
    assert len(repeated.unused) < len(kept)
