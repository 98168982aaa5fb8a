"""Whether a step costs more the more steps its run has behind it."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw

from bench.figures import Section
from bench.prepared_store import DEFINITION, PreparedRun, PreparedStore, prepare_store
from store import run_history
from store.transaction import Reading

_GROUP: Final = 10
_WRITTEN_PER_PAGE: Final = 4_096 + 24  # a page of the database and its head in the log


@dataclass(frozen=True, slots=True)
class LongRunPlan:
    """How much is measured.

    Attributes:
        steps: of the one run.
        part: steps at its end that are held against as many at the beginning of another one.
        rounds: how often the two take turns within them.
    """

    steps: int
    part: int
    rounds: int


@dataclass(slots=True)
class _Cost:
    """What groups of steps cost: us of CPU per step, and KiB written to the log per step."""

    cpu_us: list[float] = field(default_factory=list)
    written_kib: list[float] = field(default_factory=list)


def measure_long_run(folder: Path, plan: LongRunPlan) -> Section:
    """Step one run to its end in a database inside `folder`, ten steps to a commit.

    Its last steps take turns with the first ones of a run that begins then: both meet the same
    database and the same machine, so that nothing but the history is compared.
    """
    store = prepare_store(folder / "long-run", 2)
    old, young = store.runs
    empty, last, first = _Cost(), _Cost(), _Cost()
    try:
        store.settle()
        _walk(store, old, plan.part, empty)
        _walk(store, old, plan.steps - 2 * plan.part, _Cost())
        store.settle()
        for _ in range(plan.rounds):
            _walk(store, old, plan.part // plan.rounds, last)
            _walk(store, young, plan.part // plan.rounds, first)
        resumed = [[_read_us(store, run) for _ in range(plan.rounds)] for run in store.runs]
    finally:
        store.close()
    section = Section(
        "Long run",
        f"Per step, its COMMIT included: the last {plan.part:,} steps of a run, and the first of"
        " another in turns\nwith them; `empty`: the first of the one, in a database without rows.",
    )
    section.add("long_run_empty_steps", "us", empty.cpu_us)
    section.add("long_run_first_steps", "us", first.cpu_us)
    section.add("long_run_last_steps", "us", last.cpu_us)
    section.add_ratio(f"long_run_of_{plan.steps}_last_vs_first", last.cpu_us, first.cpu_us)
    section.add("long_run_empty_steps_written", "KiB", empty.written_kib)
    section.add("long_run_first_steps_written", "KiB", first.written_kib)
    section.add("long_run_last_steps_written", "KiB", last.written_kib)
    section.add(f"long_run_resumed_after_{plan.part}", "us", resumed[1])
    section.add(f"long_run_resumed_after_{plan.steps}", "us", resumed[0])
    return section


def _walk(store: PreparedStore, run: PreparedRun, count: int, cost: _Cost) -> None:
    """Take `count` steps of a run and note what one of them cost."""
    spent_s, written = 0.0, _pages_written(store)
    for _ in range(0, count, _GROUP):
        steps = [run.next_step() for _ in range(_GROUP)]
        begun = time.thread_time()
        store.batch.begin()
        for step in steps:
            store.batch.run_lightly(step)
        store.batch.commit()
        spent_s += time.thread_time() - begun
    cost.cpu_us.append(spent_s / count * 1e6)
    pages = _pages_written(store) - written
    cost.written_kib.append(pages * _WRITTEN_PER_PAGE / count / 1_024)


def _read_us(store: PreparedStore, run: PreparedRun) -> float:
    """Return what reading all that a resuming runner needs of the steps costs, in us of CPU."""
    reading = Reading(store.writer.connection, store.clock.wall_ms())
    begun = time.thread_time()
    page = run_history.page(reading, run.run_id, DEFINITION)
    spent_s = time.thread_time() - begun
    assert len(page.steps) == 1, "the newest step of the one node"
    return spent_s * 1e6


def _pages_written(store: PreparedStore) -> int:
    return store.writer.connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
