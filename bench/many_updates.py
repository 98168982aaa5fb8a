"""Whether a run that has said much of itself is read as fast as one that has said nothing."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.figures import Section
from bench.prepared_store import PreparedStore, prepare_store
from pi_workflows.protocol.canonical import JsonObject
from store import run_lists, run_views
from store.blobs import Blob
from store.opening import open_reader
from store.transaction import Reading
from store.updates import NewUpdate

_TOGETHER: Final = 100
"""Updates in one transaction."""

Read = Callable[[], JsonObject]


@dataclass(frozen=True, slots=True)
class UpdatesPlan:
    """How much is measured.

    Attributes:
        updates: of the run that says something, each under a key of its own; at most 1,024.
        rounds: samples of each figure.
        reads: in one sample.
    """

    updates: int
    rounds: int
    reads: int


def measure_updates(folder: Path, plan: UpdatesPlan) -> Section:
    """List and show a run with updates and one without, in turns, in databases in `folder`."""
    section = Section(
        "Updates",
        f"A run with {plan.updates:,} current updates is listed and shown, and one without any. "
        "A view shows the newest of them.",
    )
    with (
        _reading(folder / "silent", 0) as silent,
        _reading(folder / "talking", plan.updates) as talking,
    ):
        for name, read in {"list": _listed, "view": _viewed}.items():
            without, with_them = [], []
            for _ in range(plan.rounds):
                without.append(_us(partial(read, silent), plan.reads))
                with_them.append(_us(partial(read, talking), plan.reads))
            section.add(f"{name}_without_updates", "us", without)
            section.add(f"{name}_with_{plan.updates}_updates", "us", with_them)
            section.add_ratio(f"{name}_with_vs_without_updates", with_them, without)
    return section


def _listed(reading: Reading) -> JsonObject:
    return run_lists.page(reading, limit=1)


def _viewed(reading: Reading) -> JsonObject:
    return run_views.run_view(reading, "run-0")


@contextmanager
def _reading(folder: Path, updates: int) -> Generator[Reading]:
    """Make a database whose only run has so many updates, and read it beside its writer."""
    store = prepare_store(folder, 1)
    try:
        for first in range(0, updates, _TOGETHER):
            _publish(store, range(first, min(first + _TOGETHER, updates)))
        reader = open_reader(folder / "state.sqlite")
        try:
            yield Reading(reader.connection, store.clock.wall_ms())
        finally:
            reader.close()
    finally:
        store.close()


def _publish(store: PreparedStore, numbers: range) -> None:
    (run,) = store.runs
    store.settle()
    store.batch.begin()
    for number in numbers:
        said: JsonObject = {"completed": number, "unit": "items"}
        update = NewUpdate(run.attempt_id, "progress", f"key-{number}", Blob.of_json(said))
        store.batch.run(partial(run.publish, update=update))
    store.batch.commit()


def _us(read: Read, count: int) -> float:
    begun = time.thread_time()
    for _ in range(count):
        read()
    return (time.thread_time() - begun) / count * 1e6
