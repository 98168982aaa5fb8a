"""Real processes on one real file, in every order of the points where they can stand."""

import os
import pwd
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from multiproc_tests.harness.processes import BOUND_S, ExactProcess
from multiproc_tests.harness.servers import ROOT
from pi_workflows.chaos import procs_engine
from pi_workflows.chaos.procs_engine import KILLS, ORDERS, ProcsEngine
from pi_workflows.chaos.procs_subject import ALL_POINTS, StoreSubject, place_of
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Moment, ScenarioRefused, Verdict
from runtime.chaos.procs_child import serve
from runtime.chaos.procs_pool import Pool
from runtime.chaos.procs_wire import Line
from runtime.chaos.scenario import Scenario
from runtime.sync_points import SyncPoint
from store.authority import holding
from store.transaction import Reading, Transaction

ORDERS_OF_TWO: Final = 30
"""Two processes with four points each and one lock between them."""


def claims(count: int, *, core: bool = True, **faults: int) -> Scenario[Scene]:
    @scenario(promises=("P3",), engines=("procs",), core=core)
    def claims_at_once(s: Scene) -> None:
        job = s.resource("job")

        @s.actor(count=count)
        async def worker(me: Me) -> None:
            await me.claim(job)

        s.faults(**faults)  # type: ignore[arg-type]

        @s.always
        def one_generation(look: Look) -> None:
            assert holding(look.reading, job).generation <= 1

        @s.finally_
        def one_winner(look: Look) -> None:
            assert len(look.acknowledged) <= 1

    return claims_at_once


@scenario(engines=("procs",), core=True)
def looks_then_takes(s: Scene) -> None:
    """Decides by what it has seen before its transaction began."""
    job = s.resource("job")

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        if await me.read(lambda reading: is_free(reading, job), point="look"):
            await me.do(lambda tx: take_anyway(tx, job, me.name), point="take")

    @s.finally_
    def taken_once(look: Look) -> None:
        assert len(look.acknowledged) <= 1, "two have taken it"


def is_free(reading: Reading, job: ResourceId) -> bool:
    return holding(reading, job).owner_id is None


def take_anyway(tx: Transaction, job: ResourceId, name: str) -> None:
    tx.execute(
        "UPDATE leases SET owner_type = 'host', owner_id = :name, token_hash = zeroblob(32),"
        " acquired_at = :now, heartbeat_at = :now, expires_at = :now"
        " WHERE resource_id = :job",
        {"name": name, "now": tx.now, "job": job},
    )


def test_two_processes_have_thirty_orders_and_each_holds() -> None:
    """Every order of two claims at once: one winner in each, and the count shows that all were.

    Case: A30.
    """
    [orders] = ProcsEngine().explore(claims(2), Wanted(is_all=True))
    assert (orders.unit, orders.explored, orders.complete) == (ORDERS, ORDERS_OF_TWO, True)
    assert (orders.broken, orders.not_deterministic, orders.blind_spots) == (0, [], [])
    assert "worker-0 at claim busy | worker-1 at claim before_commit" in orders.pairs


def test_two_controllers_share_the_orders() -> None:
    parts = [
        ProcsEngine().explore(claims(2), Wanted(is_all=True, part=(number, 2)))[0]
        for number in range(2)
    ]
    assert all(part.complete for part in parts)
    assert sum(part.explored for part in parts) == ORDERS_OF_TWO


def test_too_many_orders_are_drawn_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procs_engine, "ORDERS_MAX", ORDERS_OF_TWO // 2)
    [orders] = ProcsEngine().explore(claims(2), Wanted(is_all=True, goals={ORDERS: 7}))
    assert (orders.explored, orders.promised, orders.complete) == (7, 7, False)


def test_budget_that_ends_first_leaves_the_promise_open() -> None:
    [orders] = ProcsEngine().explore(claims(2), Wanted(is_all=True, budget_s=0.0))
    assert (orders.explored, orders.complete) == (0, False)
    assert orders.verdict is Verdict.BUDGET_ENDED


def test_deciding_before_the_transaction_is_found_and_comes_back() -> None:
    [orders] = ProcsEngine().explore(looks_then_takes, Wanted(is_all=True))
    assert orders.broken
    assert orders.not_deterministic == []
    finding = orders.findings[0]
    assert finding.complaint == "taken_once: two have taken it"
    again = ProcsEngine().repeat(looks_then_takes, finding.choices, finding.seed)
    assert again.finding == finding
    assert again.unused == frozenset()
    half = ProcsEngine().repeat(looks_then_takes, finding.choices, None, until=3)
    assert half.timeline == finding.timeline[:3]
    assert half.finding is None


def one_order(of: Scenario[Scene], choices: dict[str, str]) -> tuple[Moment, ...]:
    repeated = ProcsEngine().repeat(of, choices, None)
    assert repeated.finding is None
    assert repeated.unused == frozenset()
    return repeated.timeline


@pytest.mark.parametrize("point", sorted(ALL_POINTS))
def test_what_is_killed_before_its_commit_leaves_the_job_to_the_next(point: SyncPoint) -> None:
    """At each point of a command; the lock of the dead is free at once, and what it wrote gone."""
    place = place_of("claim", point)
    if point is SyncPoint.COMMAND_BEFORE_BEGIN:
        choices = {"start#1": "kill worker-0"}
    else:
        choices = {f"worker-0 after {place}#1": "kill worker-0"}
    timeline = one_order(claims(2, core=False, kill=1), choices)
    assert Moment(0, "worker-0", "killed", f"at {place}") in timeline
    is_committed = point is SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY
    assert timeline[-1].what == "claim"
    assert timeline[-1].result == ("refused: LEASE_HELD" if is_committed else "generation 1")


def test_kills_are_drawn_at_every_point() -> None:
    _, kills = ProcsEngine().explore(
        claims(2, core=False, kill=1), Wanted(goals={ORDERS: 1, KILLS: 60})
    )
    assert (kills.unit, kills.explored, kills.broken) == (KILLS, 60, 0)
    assert kills.faults["kill"] == 60
    assert kills.not_deterministic == []


def test_stopped_holder_of_the_lock_holds_up_the_other_until_it_goes_on() -> None:
    """SIGSTOP inside a transaction: the other stands at busy, whoever is first in the queue."""
    timeline = one_order(
        claims(2, core=False, pause=1), {"worker-0 after claim after_begin#1": "pause worker-0"}
    )
    told = [(moment.lane, moment.what) for moment in timeline]
    stopped, busy = told.index(("worker-0", "paused")), told.index(("worker-1", "claim busy"))
    resumed = told.index(("worker-0", "resumed"))
    assert stopped < busy < resumed
    assert ("worker-1", "claim") in told[resumed:]


def test_lost_answer_is_committed_and_unknown() -> None:
    place = place_of("claim", SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY)
    timeline = one_order(
        claims(2, core=False, drop=1), {f"worker-0 after {place}#1": "drop worker-0"}
    )
    results = {moment.lane: moment.result for moment in timeline if moment.what == "claim"}
    assert results == {"worker-0": "failed: AnswerLost", "worker-1": "refused: LEASE_HELD"}


def test_repeated_request_is_carried_out_twice() -> None:
    place = place_of("claim", SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY)
    timeline = one_order(
        claims(1, core=False, duplicate=1), {f"worker after {place}#1": "duplicate worker"}
    )
    places = [moment.what for moment in timeline]
    assert places.count(place) == 2
    assert timeline[-1].result == "generation 1"


def test_sleepers_wake_by_the_clock_of_the_controller() -> None:
    @scenario(engines=("procs",))
    def late(s: Scene) -> None:
        job = s.resource("job")

        @s.actor()
        async def owner(me: Me) -> None:
            await me.claim(job)

        @s.actor()
        async def heir(me: Me) -> None:
            await me.sleep(31.0)
            claim = await me.claim(job)
            assert claim is not None
            await me.send("printer", "page-1", claim)

    timeline = one_order(late, {})
    assert [moment.at_ms for moment in timeline if moment.what == "sleep"] == [31_000]
    assert timeline[-1] == Moment(31_000, "heir", "send", "yes", 2)


def test_actor_that_reads_the_clock_of_the_machine_is_refused() -> None:
    import time  # noqa: PLC0415 - what the actor must not do

    @scenario(engines=("procs",))
    def impatient(s: Scene) -> None:
        @s.actor()
        async def worker(me: Me) -> None:
            await me.sync(f"at {time.time()}")

    with pytest.raises(ScenarioRefused, match=r"test_process_orders\.py:\d+: time\.time is not"):
        ProcsEngine().explore(impatient, Wanted())


def wait(line: Line) -> None:
    line.receive()


def test_pool_leaves_no_process_behind() -> None:
    """Idle, stopped or killed: all have ended when the pool is closed."""
    with Pool(wait) as pool:
        members = [pool.fork() for _ in range(3)]
        watched = [ExactProcess(pid) for pid in pool.pids]
        pool.stop(members[0])
        pool.kill(members[1])
        assert [process.is_alive for process in watched] == [True, True, False, True]
    assert not any(process.is_alive for process in watched)
    for process in watched:
        process.close()


CONTROLLER: Final = """
import socket, sys
from runtime.chaos.procs_child import serve
from runtime.chaos.procs_pool import Pool
told = socket.socket(fileno=int(sys.argv[1]))
pool = Pool(lambda line: line.receive())
members = [pool.fork() for _ in range(2)]
pool.stop(members[0])
told.sendall(" ".join(map(str, pool.pids)).encode() + b"\\n")
told.recv(1)
"""


@pytest.mark.parametrize("also", [(), (0,)])
def test_pool_ends_with_a_killed_controller(also: tuple[int, ...]) -> None:
    """Also when the process that has started the others is killed with it."""
    ours, its = socket.socketpair()
    with ours, its:
        controller = subprocess.Popen(
            [sys.executable, "-P", "-c", CONTROLLER, str(its.fileno())],
            env={"PYTHONPATH": str(ROOT)},
            pass_fds=[its.fileno()],
        )
        ours.settimeout(BOUND_S)
        with ours.makefile("rb") as lines:
            pids = [int(pid) for pid in lines.readline().split()]
        watched = [ExactProcess(pid) for pid in pids]
        for index in also:
            os.kill(pids[index], signal.SIGKILL)
        controller.kill()
        controller.wait()
        for process in watched:
            process.await_end()
            process.close()


def test_process_of_the_pool_refuses_the_live_state_directory_itself() -> None:
    """Whoever sends it there: no variable of the environment moves the home of the account."""
    live = StatePaths(Path(pwd.getpwuid(os.geteuid()).pw_dir)).database
    subject = StoreSubject(claims(1), ALL_POINTS)
    with Pool(partial(serve, subject=subject)) as pool:
        process = pool.fork()
        process.line.send({"open": str(live)})
        answer = process.line.receive()
    assert "is the live state directory" in str(answer["refused"])
