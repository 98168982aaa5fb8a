"""Lives of which every call to the disk fails: how many are wanted, done, and told."""

from dataclasses import replace
from typing import Final

import pytest

from pi_workflows.chaos import crash_engine, crash_faults
from pi_workflows.chaos.crash_account import WORKLOADS
from pi_workflows.chaos.crash_engine import DOUBLE_FAULTS, IO_ERRORS, POWER_CUTS, CrashEngine
from pi_workflows.chaos.crash_faults import Failed, References, fail, references_of
from pi_workflows.chaos.crash_ground import Ground, ground_of
from pi_workflows.chaos.crash_words import FIRST_LIFE, NEXT_START
from runtime.chaos.choices import Benign, Choices
from runtime.chaos.disk_faults import Failure, Fault
from runtime.chaos.disk_log import Doing
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Tally, Verdict
from tests.chaos.few_writes import a_few_writes, explored_all


def failing(wanted: Wanted) -> tuple[Tally, Tally]:
    """Return the figures of failing calls, and of the lives of which all have failed."""
    tallies = explored_all(wanted)
    return tallies[IO_ERRORS], tallies[WORKLOADS]


FEW: Final = {POWER_CUTS: 1, DOUBLE_FAULTS: 1}


def test_workload_is_a_life_of_which_every_call_has_failed_once_and_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[tuple[str, Failure, int, int | None]] = []

    def noted(ground: Ground, references: References, place: str, fault: Fault) -> Failed:
        failed = fail(ground, references, place, fault)
        if failed.faults.fired:
            tried.append((place, fault.failure, fault.at, fault.times))
        return failed

    monkeypatch.setattr(crash_faults, "Failure", (Failure.SYNC_ERROR, Failure.OPEN_ERROR))
    monkeypatch.setattr(crash_faults, "fail", noted)
    with ground_of(a_few_writes) as ground:
        references = references_of(ground, ground.live(Choices(Benign()), 0))
        logs = (references.lived.life.log, references.restarted.log)
        flushes = [sum(it.doing is Doing.SYNC for it in log.operations) for log in logs]
    errors, workloads = failing(Wanted(goals=FEW | {WORKLOADS: 1}))
    assert errors.verdict is workloads.verdict is Verdict.HELD
    assert (workloads.explored, workloads.promised, workloads.complete) == (1, 1, True)
    assert errors.complete
    assert errors.explored == len(tried) == len(set(tried))
    for place, count in zip((FIRST_LIFE, NEXT_START), flushes, strict=True):
        once = [(kind, at) for where, kind, at, times in tried if where == place and times == 1]
        flushed = [at for kind, at in once if kind is Failure.SYNC_ERROR]
        assert flushed == list(range(1, count + 1)), "every flush in its turn"
        opened = [at for kind, at in once if kind is Failure.OPEN_ERROR]
        assert opened == list(range(1, len(opened) + 1)), "and every opening"
        assert opened


def test_workloads_that_are_wanted_are_different_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_faults, "CALLS_MAX", 2)
    monkeypatch.setattr(crash_faults, "Failure", (Failure.SYNC_ERROR,))
    one, _ = failing(Wanted(goals=FEW | {WORKLOADS: 1}))
    errors, workloads = failing(Wanted(goals=FEW | {WORKLOADS: 3}))
    assert (workloads.explored, workloads.promised) == (3, 3)
    assert errors.explored == 3 * one.explored
    monkeypatch.setattr(crash_engine, "explore_double_faults", lambda *_: None)
    seeds, workloads = failing(Wanted(seeds=range(2)))
    assert (seeds.explored, workloads.explored) == (2 * one.explored, 2)


def test_workload_that_was_not_brought_to_its_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_faults, "CALLS_MAX", 2)
    errors, workloads = failing(Wanted(goals=FEW | {WORKLOADS: 1}, budget_s=0))
    assert (workloads.explored, workloads.complete, errors.complete) == (0, False, False)
    assert workloads.verdict is Verdict.BUDGET_ENDED
    errors, workloads = failing(Wanted(goals=FEW | {IO_ERRORS: 3}))
    assert (workloads.explored, workloads.verdict) == (0, Verdict.HELD)
    assert not errors.complete


@pytest.mark.parametrize("is_core", [False, True])
def test_of_a_long_life_some_calls_fail_unless_the_scenario_is_core(
    monkeypatch: pytest.MonkeyPatch, *, is_core: bool
) -> None:
    monkeypatch.setattr(crash_faults, "CALLS_MAX", 9)
    monkeypatch.setattr(crash_faults, "Failure", (Failure.READ_ERROR,))
    monkeypatch.setattr(crash_faults, "WHOLE_MAX", 10)
    life = replace(a_few_writes, core=is_core)
    tallies = CrashEngine().explore(life, Wanted(goals=FEW))
    errors, workloads = tallies[-2:]
    assert errors.complete is workloads.complete is is_core
    assert workloads.explored == is_core
    assert (errors.explored >= 16) is is_core


def test_parts_share_every_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_faults, "CALLS_MAX", 5)
    whole, _ = failing(Wanted(goals=FEW | {WORKLOADS: 1}))
    parts = [failing(Wanted(goals=FEW | {WORKLOADS: 1}, part=(part, 2))) for part in range(2)]
    assert sum(errors.explored for errors, _ in parts) == whole.explored
    assert all(errors.explored < whole.explored for errors, _ in parts)
    workloads = parts[0][1]
    workloads.add(parts[1][1])
    assert (workloads.explored, workloads.promised) == (1, 1)
