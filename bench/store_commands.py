"""Durable protected commands per second: through the store actor, and without it.

Three ways for the same command on the same file, in turns:

- `actor`: `StoreActor.do`, with some concurrent callers, on an idle and on a busy loop;
- `bare`: the very SQL statements of the command with their values, recorded beforehand in a
  transaction that is rolled back, in a loop around apsw and nothing else;
- `batch`: the command in a loop around `store.batch.Batch`, without savepoints as the actor tries
  first; the actor's own share is what it adds.
"""

import gc
import itertools
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import trio

from actors.store_actor import StoreActor
from bench.figures import Section, percentile
from bench.prepared_store import PreparedStore, Step, prepare_store
from runtime.world import production_world

GROUP: Final = 64
CALLERS: Final = (1, 16, 64)

BUSY_SLICE_S: Final = 0.0005
"""How long the busy loop's other task keeps the loop at a time (README 9)."""

_CONTROL: Final = ("SAVEPOINT", "RELEASE")


@dataclass(frozen=True, slots=True)
class StorePlan:
    """How much is measured.

    Attributes:
        rounds: samples of each figure.
        singles: commands of a sample that commits each of them alone.
        groups: commands of each caller in a sample that commits them in groups.
        switch_interval_s: how long a thread keeps the interpreter, as in the server.
    """

    rounds: int
    singles: int
    groups: int
    switch_interval_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed stretch of commands.

    Attributes:
        latencies_ms: of each call; empty where nobody waits for a single command.
    """

    per_s: float
    latencies_ms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a command with the values it was run with."""

    sql: str
    values: "apsw.Bindings | None"


def measure_store(folder: Path, plan: StorePlan) -> Section:
    """Measure every way `plan.rounds` times, in turns.

    Each sample has a new database: COMMIT costs more on one that has grown, and whatever came last
    in a round would pay for what came before. Its log has the size that it has in a server that
    has run for a while: a log that still grows costs each commit several times as much.
    """
    samples: dict[str, list[Sample]] = {}
    with _switching_every(plan.switch_interval_s):
        for number in range(plan.rounds):
            for name, way in _ways(plan).items():
                store = prepare_store(folder / f"{name}-{number}", GROUP)
                try:
                    store.grow_log()
                    store.settle()
                    gc.collect()
                    samples.setdefault(name, []).append(way(store))
                finally:
                    store.close()
    return _section(samples)


def _ways(plan: StorePlan) -> dict[str, Callable[[PreparedStore], Sample]]:
    """Return the measurements of one round, by name."""

    def singles(store: PreparedStore) -> list[Step]:
        return steps_of(store, 1, plan.singles)

    def groups(store: PreparedStore) -> list[Step]:
        return steps_of(store, GROUP, plan.groups)

    ways: dict[str, Callable[[PreparedStore], Sample]] = {
        "bare_single": lambda store: _bare(store, singles(store), 1),
        "bare_group": lambda store: _bare(store, groups(store), GROUP),
        "batch_single": lambda store: _batch(store, singles(store), 1),
        "batch_group": lambda store: _batch(store, groups(store), GROUP),
    }
    for callers, busy in itertools.product(CALLERS, (False, True)):
        each = plan.singles if callers == 1 else plan.groups
        name = f"actor_{callers}{'_busy' if busy else ''}"
        ways[name] = partial(_actor, callers=callers, each=each, busy=busy)
    return ways


def steps_of(store: PreparedStore, runs: int, each: int) -> list[Step]:
    """Return commands of `runs` runs in turns."""
    return [run.next_step() for _ in range(each) for run in store.runs[:runs]]


def record(store: PreparedStore, steps: list[Step]) -> list[list[Statement]]:
    """Return the statements of each command; nothing of them stays written."""
    recorded: list[list[Statement]] = []

    def trace(_cursor: apsw.Cursor, sql: str, values: "apsw.Bindings | None") -> bool:
        if not sql.startswith(_CONTROL):
            recorded[-1].append(Statement(sql, values))
        return True

    connection = store.writer.connection
    store.batch.begin()
    connection.exec_trace = trace
    try:
        for step in steps:
            recorded.append([])
            store.batch.run(step)
    finally:
        connection.exec_trace = None
        store.batch.abandon()
    return recorded


def _bare(store: PreparedStore, steps: list[Step], group: int) -> Sample:
    commands = record(store, steps)
    execute = store.writer.connection.execute
    begun = time.perf_counter()
    for first in range(0, len(commands), group):
        execute("BEGIN IMMEDIATE")
        for command in commands[first : first + group]:
            for statement in command:
                execute(statement.sql, statement.values).fetchall()
        execute("COMMIT")
    return Sample(len(commands) / (time.perf_counter() - begun))


def _batch(store: PreparedStore, steps: list[Step], group: int) -> Sample:
    batch = store.batch
    begun = time.perf_counter()
    for first in range(0, len(steps), group):
        batch.begin()
        for step in steps[first : first + group]:
            batch.run_lightly(step)
        batch.commit()
    return Sample(len(steps) / (time.perf_counter() - begun))


def _actor(store: PreparedStore, *, callers: int, each: int, busy: bool) -> Sample:
    steps = [[run.next_step() for _ in range(each)] for run in store.runs[:callers]]
    return trio.run(partial(through_actor, store, steps, busy=busy))


async def through_actor(store: PreparedStore, steps: list[list[Step]], *, busy: bool) -> Sample:
    """Let one caller per list hand its steps to a store actor, one after the other."""
    world = replace(production_world(), clock=store.clock)
    actor = StoreActor(store.writer, world)
    actor.fence(store.claim)
    latencies_ms: list[float] = []

    async def call(own: list[Step]) -> None:
        for step in own:
            asked = time.perf_counter()
            await actor.do(step)
            latencies_ms.append((time.perf_counter() - asked) * 1000)

    try:
        async with trio.open_nursery() as serving:
            await serving.start(actor.serve)
            if busy:
                serving.start_soon(_keep_busy)
            begun = time.perf_counter()
            async with trio.open_nursery() as callers:
                for own in steps:
                    callers.start_soon(call, own)
            elapsed_s = time.perf_counter() - begun
            serving.cancel_scope.cancel()
    finally:
        world.commits.close()
    return Sample(len(latencies_ms) / elapsed_s, tuple(latencies_ms))


async def _keep_busy() -> None:
    """Occupy the loop as parsing and view building would: slice after slice, without a pause."""
    while True:
        until = time.perf_counter() + BUSY_SLICE_S
        while time.perf_counter() < until:
            pass
        await trio.lowlevel.checkpoint()


@contextmanager
def _switching_every(interval_s: float) -> Generator[None]:
    earlier = sys.getswitchinterval()
    sys.setswitchinterval(interval_s)
    try:
        yield
    finally:
        sys.setswitchinterval(earlier)


def _section(samples: dict[str, list[Sample]]) -> Section:
    section = Section(
        "Store",
        "One command is one step of a run: an attempt ends, the next begins, two revisions.",
    )
    rates = {name: [sample.per_s for sample in found] for name, found in samples.items()}
    for name, found in rates.items():
        section.add(f"store_{name}", "commands/s", found)
    for callers, busy in itertools.product(CALLERS, ("", "_busy")):
        measured = samples[f"actor_{callers}{busy}"]
        for share in (50, 99):
            section.add(
                f"store_actor_{callers}{busy}_p{share}",
                "ms",
                [percentile(sample.latencies_ms, share / 100) for sample in measured],
            )
    for busy in ("", "_busy"):
        for base in ("bare", "batch"):
            section.add_ratio(
                f"store_64_callers{busy}_vs_{base}_group",
                rates[f"actor_64{busy}"],
                rates[f"{base}_group"],
            )
            section.add_ratio(
                f"store_1_caller{busy}_vs_{base}_single",
                rates[f"actor_1{busy}"],
                rates[f"{base}_single"],
            )
    return section
