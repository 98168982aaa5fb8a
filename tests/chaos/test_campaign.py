"""What is explored at each change, how the time is shared, and what is still missing."""

from dataclasses import replace
from typing import Any

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
from runtime.chaos.scenario import Scenario, scenario_of


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


def test_a_night_takes_every_order_and_a_sample_besides() -> None:
    items = shipped_campaign(NIGHTLY, SCENARIOS, ["orders"])
    assert [(item.ref, item.is_all) for item in items] == [
        ("a", False),
        ("b", False),
        ("a", True),
        ("b", True),
    ]


def test_what_is_promised_is_of_units_that_an_engine_counts() -> None:
    counted = {unit for units in UNITS.values() for unit in units}
    assert PER_CHANGE.promised.keys() <= NIGHTLY.promised.keys() <= counted
    assert PER_CHANGE.promised_by(["sim"]) == {"seeds": 500}


def test_only_orders_can_be_asked_for_completely() -> None:
    assert {"orders", "process orders"} == FINITE


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


def test_what_is_missing_is_shared_by_the_rest() -> None:
    items = (
        *(Item(ref=name, engine="crash") for name in "ab"),
        Item(ref="c", engine="sim"),
        Item(ref="d", engine="orders", is_all=True),
        Item(ref="e", engine="orders", seeds=range(3)),
    )
    campaign = Campaign(items=items, promised=PER_CHANGE.promised)
    assert campaign.goals_of(0, {}) == {"power-cut states": 50_000, "double faults": 25_000}
    assert campaign.goals_of(1, {"power-cut states": 20_000, "double faults": 60_000}) == {
        "power-cut states": 80_000,
        "double faults": 1,
    }
    assert campaign.goals_of(2, {"seeds": 1}) == {"seeds": 499}
    assert campaign.goals_of(3, {}) == campaign.goals_of(4, {}) == {}


def test_beside_a_complete_one_the_others_are_sampled() -> None:
    items = tuple(Item(ref=name, engine="orders", is_all=name == "b") for name in "ab")
    campaign = Campaign(items=items, promised=PER_CHANGE.promised, sample=PER_CHANGE.sample)
    assert campaign.goals_of(0, {}) == {"orders": 300}
