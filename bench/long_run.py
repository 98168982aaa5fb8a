"""Whether a step costs more the more steps its run has behind it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.figures import Section
from bench.prepared_store import PreparedStore, prepare_store

_GROUP: Final = 10


@dataclass(frozen=True, slots=True)
class LongRunPlan:
    """How much is measured.

    Attributes:
        steps: of the one run.
        part: steps at its beginning that are held against as many at its end.
    """

    steps: int
    part: int


def measure_long_run(folder: Path, plan: LongRunPlan) -> Section:
    """Step one run to its end in a database inside `folder`, ten steps to a commit."""
    store = prepare_store(folder / "long-run", 1)
    try:
        store.settle()
        first_us = _cpu_us_per_step(store, plan.part)
        _cpu_us_per_step(store, plan.steps - 2 * plan.part)
        store.settle()
        last_us = _cpu_us_per_step(store, plan.part)
    finally:
        store.close()
    section = Section(
        "Long run",
        f"CPU per step, its COMMIT included: the first {plan.part:,} steps of a run and the last.",
    )
    section.add("long_run_first_steps", "us", [first_us])
    section.add("long_run_last_steps", "us", [last_us])
    section.add_ratio(f"long_run_of_{plan.steps}_last_vs_first", [last_us], [first_us])
    return section


def _cpu_us_per_step(store: PreparedStore, count: int) -> float:
    run, batch = store.runs[0], store.batch
    spent_s = 0.0
    for _ in range(0, count, _GROUP):
        steps = [run.next_step() for _ in range(_GROUP)]
        begun = time.thread_time()
        batch.begin()
        for step in steps:
            batch.run_lightly(step)
        batch.commit()
        spent_s += time.thread_time() - begun
    return spent_s / count * 1e6
