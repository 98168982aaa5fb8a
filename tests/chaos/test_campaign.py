"""What is explored at each change, how the time is shared, and what is still missing."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows.chaos.campaign import (
    FINITE,
    NIGHTLY,
    PER_CHANGE,
    UNITS,
    Campaign,
    Item,
    shipped_campaign,
)
from pi_workflows.chaos.exploration import CarryingOut
from pi_workflows.chaos.registry import SCENARIOS as SHIPPED
from pi_workflows.chaos.tasks import Exploration, Shrinking
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Finding, Tally, Verdict
from runtime.chaos.scenario import Scenario, scenario_of
from runtime.chaos.shrinking import LEAST_S
from runtime.chaos.tally_json import finding_json, tally_json

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject


def named(name: str, *engines: str, core: bool = False) -> Scenario[Any]:
    made: Scenario[Any] = scenario_of(lambda _: None, promises=(), engines=engines, core=core)
    return replace(made, name=name, ref=name)


SCENARIOS = [named("a", "orders", "crash"), named("b", "orders", "procs", "sim", core=True)]
ENGINES = ("orders", "crash", "procs", "sim")


def test_every_scenario_meets_every_engine_it_is_made_for() -> None:
    items = shipped_campaign(PER_CHANGE, SCENARIOS, ENGINES)
    assert [(item.ref, item.engine, item.is_all) for item in items] == [
        ("a", "orders", False),
        ("a", "crash", False),
        ("b", "procs", False),
        ("b", "sim", False),
        ("b", "orders", True),
    ]


def test_a_night_takes_every_order_and_then_samples() -> None:
    items = shipped_campaign(NIGHTLY, SCENARIOS, ["orders", "procs"])
    assert [(item.ref, item.engine, item.is_all) for item in items] == [
        ("a", "orders", True),
        ("b", "orders", True),
        ("a", "orders", False),
        ("b", "orders", False),
        ("b", "procs", False),
    ]


def test_a_night_shares_what_time_there_is_by_what_each_engine_needs() -> None:
    items = shipped_campaign(NIGHTLY, SCENARIOS, ENGINES)
    campaign = Campaign(items=items, budget_s=3_600 / 0.97)
    given: Counter[str] = Counter()
    elapsed_s = 0.0
    for index, item in enumerate(items):
        if not item.is_all:  # Every order of these is explored at once.
            budget_s = campaign.budget_of(index, elapsed_s)
            assert budget_s is not None
            given[item.engine] += budget_s  # type: ignore[assignment]
            elapsed_s += budget_s
    assert elapsed_s == pytest.approx(3_600)
    needed_s = sum(NIGHTLY.seconds.values())
    for engine, seconds in NIGHTLY.seconds.items():
        assert given[engine] == pytest.approx(3_600 * seconds / needed_s), engine


def test_complete_ones_leave_most_of_a_night_to_the_others() -> None:
    items = shipped_campaign(NIGHTLY, SHIPPED.values(), ENGINES)
    campaign = Campaign(items=items, budget_s=10_800)
    elapsed_s = 0.0
    for index, item in enumerate(items):
        if item.is_all:
            elapsed_s += campaign.budget_of(index, elapsed_s, processes=2) or 0.0
    assert elapsed_s < 10_800 / 2


def test_what_is_promised_is_of_units_that_an_engine_counts() -> None:
    counted = {unit for units in UNITS.values() for unit in units}
    assert PER_CHANGE.promised.keys() <= NIGHTLY.promised.keys() <= counted
    assert PER_CHANGE.promised_by(["sim"]) == {"seeds": 500}


def test_only_what_has_an_end_can_be_asked_for_completely() -> None:
    assert {"orders", "process orders", "I/O errors"} == FINITE


def test_every_failing_call_of_core_scenarios_is_promised_at_each_change() -> None:
    known = [named("a", "crash"), named("b", "orders", "crash", core=True)]
    a, b = shipped_campaign(PER_CHANGE, known, ["crash"])
    assert [(it.ref, it.owes("I/O errors"), it.owes("power-cut states")) for it in (a, b)] == [
        ("a", False, False),
        ("b", True, False),
    ]
    assert b.weight > a.weight, "and it gets the time for that"
    assert Item(ref="a", engine="crash", is_all=True).owes("I/O errors")
    core = [each for each in SHIPPED.values() if each.core and "crash" in each.engines]
    assert len(core) <= PER_CHANGE.promised["workloads"]


def test_how_many_workloads_a_scenario_gives_is_left_to_the_engine_at_each_change() -> None:
    for figures, goals in ((PER_CHANGE, set()), (NIGHTLY, {"workloads"})):
        items = shipped_campaign(figures, [named("a", "crash"), named("b", "crash")], ["crash"])
        campaign = Campaign(items=items, promised=figures.promised, sample=figures.sample)
        assert campaign.goals_of(0, {}).keys() == {"power-cut states", "double faults", *goals}


def test_what_a_part_that_is_missing_shared_is_not_done() -> None:
    campaign = Campaign(items=(Item(ref="a", engine="crash"),))
    carrying = CarryingOut(campaign, 2, Watching())
    workloads = Tally("a", "crash", "workloads", explored=3, complete=True, is_shared=True)
    errors = Tally("a", "crash", "I/O errors", explored=900, complete=True)
    exploration = Exploration("a", "crash", Wanted(), 0)
    told = [tally_json(errors), tally_json(workloads)]
    for answered, done in ((1, (900, 0, False)), (2, (1800, 3, True))):
        carrying.answered(answered, exploration, {"tallies": [*told]})
        failed, whole = carrying.report().tallies
        assert (failed.explored, whole.explored, whole.complete) == done


def test_time_that_others_left_is_shared_by_the_rest() -> None:
    items = tuple(Item(ref=name, engine="orders", weight=1) for name in "abcd")
    campaign = Campaign(items=items, budget_s=40 / 0.97)
    assert campaign.budget_of(0, 0) == pytest.approx(10)
    assert campaign.budget_of(1, 1) == pytest.approx(13)
    assert campaign.budget_of(3, 39) == pytest.approx(1)
    assert campaign.budget_of(3, 100) == 0
    assert Campaign(items=items).budget_of(0, 0) is None


def test_what_one_process_does_alone_gets_more_of_the_time() -> None:
    alone = tuple(Item(ref=name, engine="crash", weight=1, is_split=False) for name in "ab")
    campaign = Campaign(
        items=(*alone, Item(ref="c", engine="orders", weight=1)), budget_s=40 / 0.97
    )
    assert campaign.budget_of(0, 0, processes=2) == pytest.approx(20)
    assert campaign.budget_of(1, 0, processes=2) == pytest.approx(80 / 3)
    assert campaign.budget_of(2, 30, processes=2) == pytest.approx(10)


def test_what_needs_more_than_others_may_take_it_as_far_as_there_is_any() -> None:
    items = tuple(Item(ref=name, engine="crash", stretch=2.0) for name in "abcd")
    campaign = Campaign(items=items, budget_s=40 / 0.97)
    assert campaign.budget_of(0, 0) == pytest.approx(20)
    assert campaign.budget_of(3, 30) == pytest.approx(10)
    [item] = shipped_campaign(PER_CHANGE, [named("a", "crash")], ["crash"])
    assert item.stretch > 1
    assert all(it.stretch == 1 for it in shipped_campaign(NIGHTLY, SCENARIOS, ENGINES))


def test_what_is_missing_is_shared_by_the_rest() -> None:
    items = (
        *(Item(ref=name, engine="crash") for name in "ab"),
        Item(ref="c", engine="sim"),
        Item(ref="d", engine="orders", is_all=True),
        Item(ref="e", engine="orders", seeds=range(3)),
    )
    campaign = Campaign(items=items, promised=PER_CHANGE.promised, sample={"workloads": 0})
    assert campaign.goals_of(0, {}) == {"power-cut states": 50_000, "double faults": 25_000}
    assert campaign.goals_of(1, {"power-cut states": 20_000, "double faults": 60_000}) == {
        "power-cut states": 80_000,
        "double faults": 1,
    }
    assert campaign.goals_of(2, {"seeds": 1}) == {"seeds": 499}
    assert campaign.goals_of(3, {}) == campaign.goals_of(4, {}) == {}


@dataclass
class Watching:
    """Notes what is begun."""

    items: list[Item] = field(default_factory=list)

    def begun(self, item: Item) -> None:
        self.items.append(item)

    def told(self, item: Item, unit: str, count: int) -> None:
        pass

    def ended(self, item: Item, tallies: list[Tally]) -> None:
        pass

    def shrinking(self, finding: Finding) -> None:
        pass

    def tick(self) -> None:
        pass


@pytest.mark.parametrize("is_complete", [True, False])
def test_what_is_known_completely_is_not_sampled(*, is_complete: bool) -> None:
    items = (
        Item(ref="a", engine="orders", is_all=True),
        Item(ref="a", engine="orders", is_split=False),
        Item(ref="b", engine="orders", is_split=False),
    )
    campaign = Campaign(items=items, promised={"orders": 1_000}, budget_s=100.0)
    carrying = CarryingOut(campaign, 1, Watching())
    carrying.hand_out()
    task = carrying.next_task(0)
    assert task is not None
    tally = Tally("a", "orders", "orders", explored=100, complete=is_complete)
    carrying.answered(0, task, {"tallies": [tally_json(tally)]})
    task = carrying.next_task(0)
    assert isinstance(task, Exploration)
    if is_complete:
        assert (task.ref, task.wanted.goals) == ("b", {"orders": 900})
        assert task.wanted.budget_s == pytest.approx(97, abs=1)
    else:
        assert (task.ref, task.wanted.goals) == ("a", {"orders": 450})
        assert task.wanted.budget_s == pytest.approx(97 / 2, abs=1)
    tallies = carrying.report().tallies
    assert [tally.explored for tally in tallies] == [100]


FINDING = Finding("a", "orders", "P3", "twice", {"b after c#1": "d"}, None, (), "ab" * 32)


@pytest.mark.parametrize(("budget_s", "most_s"), [(None, 60.0), (30.0, 30.0), (0.001, LEAST_S)])
def test_a_budget_bounds_how_long_a_break_is_made_small(
    tmp_path: Path, budget_s: float | None, most_s: float
) -> None:
    campaign = Campaign(items=(Item(ref="a", engine="orders"),), budget_s=budget_s)
    carrying = CarryingOut(campaign, 1, Watching(), tmp_path)
    broken = Tally("a", "orders", "orders", explored=1, broken=1, findings=[FINDING])
    carrying.answered(
        0, Exploration("a", "orders", Wanted(), 0), {"tallies": [tally_json(broken)]}
    )
    task = carrying.next_task(0)
    assert isinstance(task, Shrinking)
    assert task.seconds_max == pytest.approx(most_s, abs=1)
    for is_minimal in (False, True):
        answer: JsonObject = {"finding": finding_json(FINDING), "comesBack": True}
        carrying.answered(0, task, answer | {"isMinimal": is_minimal})
        assert [each.is_cut_short for each in carrying.report().failures] == [not is_minimal]


def test_what_is_under_way_when_a_signal_comes_is_told_and_owed() -> None:
    items = tuple(Item(ref=name, engine="orders") for name in "abc")
    carrying = CarryingOut(Campaign(items=items), 2, Watching())
    whole = Tally("a", "orders", "orders", explored=9, complete=True)
    half = Tally("b", "orders", "orders", explored=40, promised=1)
    for number in range(2):
        part = Exploration("a", "orders", Wanted(part=(number, 2)), 0)
        carrying.told(part, "orders", 5)
        carrying.answered(number, part, {"tallies": [tally_json(whole)]})
    first, second = (Exploration("b", "orders", Wanted(part=(it, 2)), 1) for it in range(2))
    carrying.told(first, "orders", 40)
    carrying.answered(0, first, {"tallies": [tally_json(half)]})
    carrying.told(second, "orders", 7)
    carrying.told(second, "orders", 2)
    report = carrying.report(Signals.SIGTERM)
    assert [(it.scenario, it.explored, it.verdict) for it in report.tallies] == [
        ("a", 18, Verdict.HELD),
        ("b", 49, Verdict.BUDGET_ENDED),
        ("c", 0, Verdict.BUDGET_ENDED),
    ]
    assert report.exit_code == 143


def test_beside_a_complete_one_the_others_are_sampled() -> None:
    items = tuple(Item(ref=name, engine="orders", is_all=name == "b") for name in "ab")
    campaign = Campaign(items=items, promised=PER_CHANGE.promised, sample=PER_CHANGE.sample)
    assert campaign.goals_of(0, {}) == {"orders": 300}
