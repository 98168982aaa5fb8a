"""Steps per second of compute workflows, end to end: real server, real children.

Times are those that the server and its children record with the steps, in whole milliseconds; the
moment of asking is the client's. `stepping` leaves the start of the children out: it counts from
the first node's start, with many runs at once from the opening of a gate at which all wait.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import trio

from bench.figures import Section, percentile
from bench.graphs import write_chain
from bench.server_process import running_server
from pi_workflows.client.asynchronous import LiveClient, unix_connector

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

_LOOK_S: Final = 0.1
"""Pause between two questions whether all is done: rare enough to cost the runs nothing."""

_ALL_S: Final = 60.0
"""Longest time that runs started together may take."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """How much is measured.

    Attributes:
        steps: nodes of each run.
        alone: runs that follow each other.
        watched: the same with a client that watches.
        rounds: how often `at_once` runs are started together.
    """

    steps: int
    alone: int
    watched: int
    at_once: int
    rounds: int


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One finished run; all instants in UTC epoch ms.

    Attributes:
        asked_at: when the client asked for it.
        seen_at: when a watching client was shown its end; None when nobody watched.
    """

    asked_at: float
    created_at: float
    finished_at: float
    steps_started_at: tuple[float, ...]
    seen_at: float | None = None


def measure_steps(folder: Path, plan: StepPlan) -> Section:
    """Measure on a new server whose home is `folder`."""
    with running_server(folder, plan.at_once) as paths:
        return trio.run(_measure, folder, plan, unix_connector(paths.socket))


async def _measure(
    folder: Path, plan: StepPlan, connect: Callable[[], Awaitable[trio.SocketStream]]
) -> Section:
    async with LiveClient(connect) as client:
        bench = _Bench(client, folder, plan)
        await bench.alone(1)  # The first run finds nothing compiled and nothing in memory.
        alone = await bench.alone(plan.alone)
        watched = await bench.watched(plan.watched)
        together = [await bench.together() for _ in range(plan.rounds)]
        behind_gate = [await bench.behind_gate(number) for number in range(plan.rounds)]
    return _section(plan, alone, watched, together, behind_gate)


class _Bench:
    """Starts runs and waits for them."""

    def __init__(self, client: LiveClient, folder: Path, plan: StepPlan) -> None:
        self._client = client
        self._folder = folder
        self._plan = plan
        self._chain = folder / "chain.workflow.py"
        write_chain(self._chain, plan.steps)

    async def alone(self, count: int) -> list[TimedRun]:
        """Run the chain `count` times, one after the other."""
        return [run for _ in range(count) for run in await self._run_all(self._chain, 1)]

    async def watched(self, count: int) -> list[TimedRun]:
        """Like `alone`, under the eyes of a client that follows the live view to the end."""
        return [await self._watch_one() for _ in range(count)]

    async def together(self) -> list[TimedRun]:
        """Run the chain several times at once."""
        return await self._run_all(self._chain, self._plan.at_once)

    async def behind_gate(self, number: int) -> list[TimedRun]:
        """Run the gated chain several times at once; open the gate when all have come to it."""
        folder = self._folder / f"gate-{number}"
        folder.mkdir()
        gated = folder / "gated.workflow.py"
        write_chain(gated, self._plan.steps, gated=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._open_gate, folder)
            return await self._run_all(gated, self._plan.at_once)

    async def _open_gate(self, folder: Path) -> None:
        while _waiting(folder) < self._plan.at_once:  # noqa: ASYNC110 - files make no events
            await trio.sleep(_LOOK_S)
        (folder / "open").touch()

    async def _run_all(self, workflow: Path, count: int) -> list[TimedRun]:
        """Start `count` runs at once and wait for all of them; only one question at a time."""
        asked: list[tuple[str, float]] = []

        async def ask() -> None:
            asked_at = _now_ms()
            payload: JsonObject = {"projectPath": str(self._folder), "workflow": str(workflow)}
            started = await self._client.call("run.start", payload)
            asked.append((str(started.receipt["runId"]), asked_at))

        with trio.fail_after(_ALL_S):
            async with trio.open_nursery() as nursery:
                for _ in range(count):
                    nursery.start_soon(ask)
            while not await self._is_idle():  # noqa: ASYNC110 - a live view would cost the runs
                await trio.sleep(_LOOK_S)
            return [await self._timed(run_id, asked_at) for run_id, asked_at in asked]

    async def _is_idle(self) -> bool:
        counts = (await self._client.call("server.status")).receipt
        return not any(counts[name] for name in ("queued", "running", "activeRunners"))

    async def _timed(self, run_id: str, asked_at: float, seen_at: float | None = None) -> TimedRun:
        receipt = (await self._client.call("run.status", run_id=run_id)).receipt
        state = cast("JsonObject", receipt["state"])
        assert state["status"] == "completed", state
        return TimedRun(
            asked_at,
            _instant_ms(state["startedAt"]),
            _instant_ms(state["finishedAt"]),
            tuple(
                _instant_ms(step["startedAt"]) for step in cast("list[JsonObject]", state["steps"])
            ),
            seen_at,
        )

    async def _watch_one(self) -> TimedRun:
        asked_at = _now_ms()
        payload: JsonObject = {"projectPath": str(self._folder), "workflow": str(self._chain)}
        with trio.fail_after(_ALL_S):
            started = await self._client.call("run.start", payload)
            run_id = str(started.receipt["runId"])
            watch = await self._client.watch("view.run.watch", run_id=run_id)
            async for event in watch.events:
                if "finishedAt" in cast("JsonObject", event.payload.get("manifest") or {}):
                    break
            seen_at = _now_ms()
            return await self._timed(run_id, asked_at, seen_at)


def _section(
    plan: StepPlan,
    alone: list[TimedRun],
    watched: list[TimedRun],
    together: list[list[TimedRun]],
    behind_gate: list[list[TimedRun]],
) -> Section:
    section = Section(
        "Steps",
        "Compute nodes of a workflow on a real server. `stepping`: without process starts.",
    )
    name = f"run_{plan.steps}_step"
    section.add(f"{name}_alone", "steps/s", [_per_s(plan.steps, [run]) for run in alone])
    section.add(f"{name}_alone_stepping", "steps/s", [_stepping(plan, [run]) for run in alone])
    section.add(f"{name}_watched_stepping", "steps/s", [_stepping(plan, [run]) for run in watched])
    shown_ms = [run.seen_at - run.finished_at for run in watched if run.seen_at is not None]
    section.add(f"{name}_watched_end_shown_after", "ms", shown_ms)
    many = f"{name}_{plan.at_once}_at_once"
    section.add(many, "steps/s", [_per_s(plan.steps, runs) for runs in together])
    section.add(f"{many}_stepping", "steps/s", [_stepping(plan, runs) for runs in behind_gate])
    since_asked = [run.steps_started_at[0] - run.asked_at for run in alone]
    since_created = [run.steps_started_at[0] - run.created_at for run in alone]
    for share in (50, 99):
        for what, samples in (("asked", since_asked), ("created", since_created)):
            figure = f"run_{what}_to_first_node_p{share}"
            section.add(figure, "ms", [percentile(samples, share / 100)])
    return section


def _per_s(steps: int, runs: list[TimedRun]) -> float:
    """Steps per second from the first request to the last end."""
    begun = min(run.asked_at for run in runs)
    return steps * len(runs) * 1000 / (max(run.finished_at for run in runs) - begun)


def _stepping(plan: StepPlan, runs: list[TimedRun]) -> float:
    """Steps per second from the first counted node's start to the last end; a gate is none."""
    begun = min(run.steps_started_at[-plan.steps] for run in runs)
    elapsed_ms = max(1.0, max(run.finished_at for run in runs) - begun)
    return plan.steps * len(runs) * 1000 / elapsed_ms


def _waiting(folder: Path) -> int:
    """Count the runs that have come to the gate."""
    return len(list(folder.glob("*.waits")))


def _instant_ms(text: object) -> float:
    assert isinstance(text, str)
    return datetime.fromisoformat(text).timestamp() * 1000


def _now_ms() -> float:
    return time.time() * 1000
