"""Planted faults are found: a check that cannot fail would prove nothing.

Those of the product are of its catalogue of mutations; the others are of the simulated world.
"""

from pathlib import Path

import pytest

from actors.scheduler import Scheduler
from pi_workflows.chaos import simulated_state
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.mutations import planted_mutation
from pi_workflows.chaos.outside import Outside
from pi_workflows.chaos.sim_scenarios import hold
from pi_workflows.chaos.simulated_runner import SimulatedRunner
from pi_workflows.runner.messages import Call, CallResult
from runtime.simulation.machine import SimulationBroken
from store.database import Writer

SEEDS = 30
"""Each fault here is met by far fewer orders than these."""


def broken_by(name: str) -> str:
    """Return what a scenario complains of in the first order in which it fails; "" for none."""
    for seed in range(SEEDS):
        try:
            hold(name, seed)
        except (InvariantBroken, SimulationBroken) as broken:
            return str(broken)
    return ""


def test_answer_that_was_not_durable_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a server that dies is lost, as if nothing had been synced."""

    def lose_log(writer: Writer) -> None:
        if not writer.closed:
            log = Path(writer.connection.filename_wal)
            writer.keep_log()
            writer.close()
            log.write_bytes(b"")

    monkeypatch.setattr(simulated_state, "_cut_writer", lose_log)
    assert "acknowledged" in broken_by("server_dies")


def test_start_that_trusts_a_log_it_has_not_settled_loses_what_was_acknowledged() -> None:
    """A flush fails, the server is started again, and then the power goes."""
    with planted_mutation("log_not_settled"):
        assert "was acknowledged" in broken_by("disk_fails")


def test_runner_that_does_not_read_what_is_recorded_gets_nowhere() -> None:
    with planted_mutation("recorded_steps_not_read"):
        assert broken_by("runner_dies")


def test_step_that_is_run_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    once = SimulatedRunner._run_turn

    async def twice(runner: SimulatedRunner, call: Call) -> CallResult:
        await once(runner, call)
        return await once(runner, call)

    monkeypatch.setattr(SimulatedRunner, "_run_turn", twice)
    assert "was run again" in broken_by("one_run")


def test_effect_that_is_sent_without_looking_is_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Outside, "has", lambda *_: False)
    assert "carried out more than once" in broken_by("sent_once")


def test_run_that_recovery_forgets_is_missed() -> None:
    with planted_mutation("recovery_skips_a_run"):
        assert broken_by("server_dies")


def test_bug_in_the_server_ends_the_simulation_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(_: Scheduler) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Scheduler, "_admit_due", bug)
    with pytest.raises(SimulationBroken, match=r"server-\d+ failed: ZeroDivisionError"):
        hold("server_dies", 1)
