"""What a report calls a blind spot: no invariant at all, and a fault that an engine cannot do."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from pi_workflows.chaos.crash_account import WORKLOADS
from pi_workflows.chaos.crash_engine import CrashEngine
from pi_workflows.chaos.orders_engine import OrdersEngine
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.chaos.sim_engine import SimEngine
from pi_workflows.chaos.stage import Stage, simulation
from runtime.chaos.engine import Wanted
from runtime.chaos.junit import junit_text
from runtime.chaos.outcome import Tally
from runtime.chaos.report import Report, report_json
from runtime.chaos.report_text import report_text
from runtime.chaos.tally_json import tally_json, tally_of

UNCHECKED = "no invariant is declared: nothing of its own can be broken"
NO_POWER_CUT = "fault power_cut was not carried out by orders"
FEW = Wanted(goals={"power-cut states": 20, "double faults": 5, "I/O errors": 5})


def two_workers(s: Scene) -> None:
    job = s.resource("job")

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        await me.claim(job)


@scenario()
def unchecked(s: Scene) -> None:
    """Two want one thing, and nobody looks."""
    two_workers(s)


@scenario()
def power_goes(s: Scene) -> None:
    """The power may go, which only a recorded disk can do."""
    two_workers(s)
    s.faults(power_cut=1)

    @s.always
    def one_at_most(look: Look) -> None:
        assert len(look.acknowledged) <= 1


def by_orders() -> Tally:
    [tally] = OrdersEngine().explore(power_goes, Wanted(is_all=True))
    return tally


def test_a_scenario_without_any_invariant_is_a_blind_spot() -> None:
    [tally] = OrdersEngine().explore(unchecked, Wanted(is_all=True))
    assert tally.blind_spots == [UNCHECKED]
    assert by_orders().blind_spots == [NO_POWER_CUT]


def test_only_what_has_checks_by_design_is_told_to_have_none() -> None:
    told = {
        tally.unit: UNCHECKED in tally.blind_spots
        for tally in CrashEngine().explore(unchecked, FEW)
    }
    assert told == dict.fromkeys(FEW.goals, True) | {WORKLOADS: False}
    assert Report(tallies=CrashEngine().explore(unchecked, FEW)).blind_spots[0] == (
        f"unchecked (crash): {UNCHECKED}"
    )
    assert Tally("bare", "orders", "orders", explored=2).blind_spots == []


def test_the_crash_engine_cuts_the_power_and_plays_what_orders_know() -> None:
    for tally in CrashEngine().explore(power_goes, FEW):
        assert not tally.idle


def test_a_fault_that_a_simulation_does_not_have_is_named_so() -> None:
    @simulation()
    def batches(s: Stage) -> None:
        @s.actor()
        async def nobody(_: object) -> None:
            pass

        s.faults(shared_batch=1)

    [tally] = SimEngine().explore(batches, Wanted(seeds=range(1)))
    assert tally.blind_spots == [
        UNCHECKED,
        "fault shared_batch was not carried out by sim",
    ]


def test_a_fault_that_another_engine_has_explored_is_no_blind_spot() -> None:
    here = by_orders()
    there = Tally("power_goes", "crash", "power-cut states", explored=7)
    there.declare(frozenset({"power_cut"}), frozenset({"power_cut"}), ["one_at_most"])
    assert Report(tallies=[here]).blind_spots == [f"power_goes (orders): {NO_POWER_CUT}"]
    assert Report(tallies=[here, there]).blind_spots == []
    for other in (replace(there, scenario="else"), replace(there, explored=0)):
        assert Report(tallies=[here, other]).blind_spots != []


def test_every_form_of_the_report_says_it() -> None:
    report = Report(tallies=[by_orders()])
    assert f"  power_goes (orders): {NO_POWER_CUT}" in report_text(report).splitlines()
    document = json.loads(json.dumps(report_json(report)))
    [figures] = document["scenarios"]
    assert figures["blindSpots"] == [NO_POWER_CUT]
    assert figures["notCarriedOut"] == ["power_cut"]
    assert document["blindSpots"] == [f"power_goes (orders): {NO_POWER_CUT}"]
    root = ET.fromstring(junit_text(report))  # noqa: S314 - our own text
    assert [
        each.get("value") for each in root.iter("property") if each.get("name") == "blind.1"
    ] == [NO_POWER_CUT]


def test_it_travels_and_is_added_up() -> None:
    one = by_orders()
    assert tally_of(tally_json(one)) == one
    whole = Tally("power_goes", "orders", "orders")
    whole.add(one)
    assert whole.idle == {"power_cut"}
    [bare] = OrdersEngine().explore(unchecked, Wanted(is_all=True))
    whole.add(bare)
    assert whole.is_unchecked


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_pause_is_counted_only_where_one_is_declared(allowed: int) -> None:
    @scenario()
    def passed_over(s: Scene) -> None:
        @s.actor(count=2)
        async def walker(me: Me) -> None:
            await me.sync("here")
            await me.sync("there")

        s.faults(pause=allowed)

        @s.finally_
        def nothing(look: Look) -> None:
            assert look.sent == []

    [tally] = OrdersEngine().explore(passed_over, Wanted(is_all=True))
    assert tally.explored > 1
    assert set(tally.faults) == ({"pause"} if allowed else set())
