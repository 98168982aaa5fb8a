"""A scenario that goes nowhere is a finding with its seed, and names who waits where.

A simulation runs under trio's MockClock: its pauses take no time.
"""

from pathlib import Path

import pytest
import trio

from pi_workflows.chaos import simulate
from pi_workflows.chaos.mutations import planted_mutation
from pi_workflows.chaos.playing import play
from pi_workflows.chaos.scenarios.system_deaths import database_rots, server_dies
from pi_workflows.chaos.sim_engine import SimEngine
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.chaos.swarm import Swarm
from pi_workflows.chaos.trace import note_events
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Finding, Verdict
from runtime.chaos.scenario import Scenario
from runtime.mailbox import Mailbox
from runtime.simulation.trace import Trace


@simulation(promises=("P8",))
def waits_in_vain(s: Stage) -> None:
    """Can be cancelled."""

    @s.actor()
    async def patient(_: SimulatedWorld) -> None:
        await trio.sleep_forever()


@simulation(promises=("P8",))
def waits_shielded(s: Stage) -> None:
    """Cannot be cancelled."""

    @s.actor()
    async def stubborn(_: SimulatedWorld) -> None:
        with trio.CancelScope(shield=True):
            await trio.Event().wait()


@simulation(promises=("P8",))
def never_waits(s: Stage) -> None:
    """Lets no time pass."""

    @s.actor()
    async def spinning(_: SimulatedWorld) -> None:
        while True:
            await trio.lowlevel.checkpoint()


def found(scenario: Scenario[Stage]) -> Finding:
    """Return the finding of seed 3; it is found again, in the same words, when repeated."""
    engine = SimEngine()
    (tally,) = engine.explore(scenario, Wanted(seeds=range(3, 4)))
    assert tally.verdict is Verdict.VIOLATED
    (finding,) = tally.findings
    assert (finding.promise, finding.seed) == ("P8", 3)
    repeated = engine.repeat(scenario, finding.choices, finding.seed)
    assert repeated.finding == finding
    return finding


@pytest.mark.parametrize(
    ("scenario", "said", "who"),
    [
        (waits_in_vain, "the scenario has not ended after 60 s: ", "actor patient waits in"),
        (waits_shielded, "it still goes on after 7260 s: ", "actor stubborn waits in"),
        (never_waits, "time stands still for 100,000 steps: ", "actor spinning runs in"),
    ],
)
def test_scenario_that_goes_nowhere_is_a_finding_that_names_who_waits(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario[Stage], said: str, who: str
) -> None:
    monkeypatch.setattr(simulate, "LIMIT_S", 60.0)
    complaint = found(scenario).complaint
    assert complaint.startswith(said)
    assert f"{who} {who.split()[1]} (test_standstill.py:" in complaint


def test_server_whose_callers_wait_for_a_dead_actor_is_a_finding_and_no_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: an actor that ends answers nobody; its callers wait where nothing cancels them."""
    monkeypatch.setattr(Mailbox, "__exit__", lambda *_: None)
    said = [str(play(server_dies, seed, Swarm(seed)).error) for seed in range(12)]
    stuck = [text for text in said if text.startswith("dead processes go on for 3600 s: ")]
    assert stuck
    assert any(" waits in Mailbox.ask (mailbox.py:" in text for text in stuck)


def test_broken_promise_is_told_though_the_database_cannot_be_read_any_more() -> None:
    """The events could not be noted, and the tasks of the dead were then held back for ever."""
    with planted_mutation("damage_met_goes_unheard"):
        error = play(database_rots, 5015, Swarm(5015)).error
    assert "has told of damage and goes on writing" in str(error)


async def test_database_that_cannot_be_read_is_noted_as_such(tmp_path: Path) -> None:
    database = tmp_path / "state.sqlite"
    database.write_bytes(b"junk" * 4_096)
    trace = Trace()
    note_events(database, trace)
    (line,) = trace.lines()
    assert "cannot be read" in line
