"""Processes that a runner has started outside its session: registered, refused, ended."""

# ruff: noqa: ARG001, ARG002 - a test asks for the clock that jumps; a fake answers for all

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from runtime.errors import ProcessesSurvived
from runtime.identity import Liveness, ProcessIdentity
from runtime.process import ExitStatus
from runtime.processes import SystemProcessTable

if TYPE_CHECKING:
    import signal

    from pi_workflows.protocol.canonical import JsonObject
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

TOOL: Final = 4_300_001
"""Above the largest process id: it names no real process."""


class Tools:
    """A process table with some processes that runners have started."""

    def __init__(self) -> None:
        system = SystemProcessTable()
        self.own_pid: Final = system.own_pid
        self.identity_of: Final = system.identity_of
        self.age_s: Final = system.age_s
        self.parents: dict[int, int | None] = {}
        """By process; None is whoever asks."""
        self.killed: list[int] = []
        self.survives = False

    def is_alive(self, identity: ProcessIdentity) -> Liveness:
        return Liveness.ALIVE

    def leader_started_by(self, parent: ProcessIdentity, pid: int) -> ProcessIdentity | None:
        is_its = self.parents.get(pid) in {None, parent.pid} and pid in self.parents
        return ProcessIdentity(pid, f"test:{pid}") if is_its else None

    def signal_exactly(self, identity: ProcessIdentity, sig: "signal.Signals") -> bool:
        if sig.name == "SIGKILL":
            self.killed.append(identity.pid)
        return True

    async def wait_gone(self, identity: ProcessIdentity) -> None:
        await trio.lowlevel.checkpoint()

    async def end_session(
        self, leader: ProcessIdentity, marker: str, *, within_s: float = 5.0
    ) -> None:
        await trio.lowlevel.checkpoint()
        if self.survives:
            raise ProcessesSurvived("it is stuck", hint="none")


@pytest.fixture
def tools(bench: "Bench", monkeypatch: pytest.MonkeyPatch) -> Tools:
    table = Tools()
    bench.services = replace(bench.services, world=replace(bench.world, processes=table))
    monkeypatch.setattr(bench.services.processes, "_processes", table)
    return table


def registered(bench: "Bench") -> list[int]:
    return [child.identity.pid for child in bench.services.processes.children()]


async def test_registered_process_is_known_on_disk_and_ends_with_its_runner(
    autojump_clock: Clock, bench: "Bench", tools: Tools
) -> None:
    """One that was given back lives on."""
    seen: list[list[int]] = []

    async def start(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        tools.parents |= {TOOL: bench.spawner.spawned[0].pid, TOOL + 1: None}
        assert (await child.ask("process.register", {"pid": TOOL}))["outcome"] == "accepted"
        assert (await child.ask("process.register", {"pid": TOOL + 1}))["outcome"] == "accepted"
        seen.append(registered(bench)[-2:])
        await child.ask("process.unregister", {"pid": TOOL + 1})
        seen.append(registered(bench)[-1:])
        return ExitStatus(1, None)

    bench.children(start)
    with trio.fail_after(60):
        assert await bench.owner(await bench.create()).run()
    assert seen == [[TOOL, TOOL + 1], [TOOL]]
    assert tools.killed == [TOOL]
    assert registered(bench) == []


async def test_strangers_and_processes_held_already_are_refused(
    autojump_clock: Clock, bench: "Bench", tools: Tools
) -> None:
    """Case: C39."""
    replies: list[JsonObject] = []
    payloads: list[JsonObject] = [
        {"pid": TOOL + 7},
        {"pid": 1},
        {"pid": True},
        {"pid": str(TOOL)},
        {"pid": TOOL, "more": 1},
        {},
        {"pid": TOOL},
        {"pid": TOOL},
    ]

    async def ask(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        tools.parents[TOOL] = bench.spawner.spawned[0].pid
        for payload in payloads:
            replies.append(await child.ask("process.register", payload))  # noqa: PERF401
        replies.append(await child.ask("process.unregister", {"pid": TOOL + 7}))
        return await child.leave("stopped")

    bench.children(ask)
    with trio.fail_after(60):
        assert await bench.owner(await bench.create()).run()
    outcomes = [reply["outcome"] for reply in replies]
    assert outcomes == ["rejected"] * 6 + ["accepted"] + ["rejected"] * 2
    assert str(replies[0]["error"]).startswith("pid is no child of this runner")
    assert replies[7]["error"] == "this process is registered already"
    assert tools.killed == [TOOL]


async def test_process_held_by_another_runner_is_refused(
    autojump_clock: Clock, bench: "Bench", tools: Tools
) -> None:
    """Case: C39."""
    tools.parents[TOOL] = None
    replies: list[JsonObject] = []
    asked = trio.Event()

    async def hold(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.ask("process.register", {"pid": TOOL})
        asked.set()
        return await child.hang()

    async def want(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await asked.wait()
        replies.append(await child.ask("process.register", {"pid": TOOL}))
        return await child.leave("stopped")

    bench.children(hold, want)
    with trio.fail_after(60):
        one, two = await bench.create(), await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(one).run)
            await asked.wait()
            await bench.owner(two).run()
            assert tools.killed == []
            nursery.cancel_scope.cancel()
    assert [reply["outcome"] for reply in replies] == ["rejected"]
    assert tools.killed == [TOOL]


async def test_registration_needs_the_live_claim(
    autojump_clock: Clock, bench: "Bench", tools: Tools
) -> None:
    tools.parents[TOOL] = None
    replies: list[JsonObject] = []

    async def lose(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await bench.alter("UPDATE leases SET generation = generation + 1")
        replies.append(await child.ask("process.register", {"pid": TOOL}))
        return ExitStatus(3, None)

    bench.children(lose)
    with trio.fail_after(60):
        assert await bench.owner(await bench.create()).run()
    assert [reply["outcome"] for reply in replies] == ["claimLost"]
    assert TOOL not in registered(bench)


async def test_one_that_survives_stays_registered_for_the_next_server_and_the_run_is_let_go(
    autojump_clock: Clock, bench: "Bench", tools: Tools
) -> None:
    tools.parents[TOOL] = None
    tools.survives = True

    async def start(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.ask("process.register", {"pid": TOOL})
        return ExitStatus(1, None)

    bench.children(start)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert registered(bench) == [TOOL]
    assert bench.queue_row(run_id).error_code == "runnerCrashed"
