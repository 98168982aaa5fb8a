"""Real processes on one real file, in every order of the points where they can stand."""

from typing import Final

import pytest
import trio

from pi_workflows.chaos import procs_engine, procs_world
from pi_workflows.chaos.procs_engine import KILLS, ORDERS, ProcsEngine
from pi_workflows.chaos.procs_store import ALL_POINTS, place_of
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.ids import ResourceId
from runtime.chaos import procs_order
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Moment, ScenarioRefused, Verdict
from runtime.chaos.planting import Rewritten, planted
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


@scenario(engines=("procs",))
def mostly_over_at_once(s: Scene) -> None:
    job = s.resource("job")

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        if me.choose("does", "much", "little") == "much":
            for number in range(8):
                await me.sync(f"step {number}")
            await me.claim(job)

    s.faults(kill=1)


@pytest.mark.parametrize(
    "of", [claims(2, core=False, kill=1), mostly_over_at_once], ids=lambda it: it.name
)
def test_every_order_that_counts_as_a_kill_has_one(of: Scenario[Scene]) -> None:
    _, kills = ProcsEngine().explore(of, Wanted(goals={ORDERS: 1, KILLS: 40}))
    assert (kills.unit, kills.explored, kills.promised) == (KILLS, 40, 40)
    assert kills.faults == {"kill": 40}
    assert (kills.broken, kills.not_deterministic) == (0, [])


@scenario(promises=("P1",), engines=("procs",))
def answered_is_kept(s: Scene) -> None:
    job = s.resource("job")

    @s.actor()
    async def worker(me: Me) -> None:
        await me.claim(job)

    s.faults(kill=1)

    @s.finally_
    def kept(look: Look) -> None:
        assert len(look.events(job, "lease.claimed")) >= len(look.acknowledged)


ANSWERING: Final = "    for answer in answers:\n        answer()\n"
COMMITTING: Final = "reached = self._world.sync_points.reached"
COMMIT: Final = "actors.store_actor:StoreActor._commit"


def test_answer_before_its_commit_is_found_by_a_kill() -> None:
    """A fault that is planted in the controller is in its processes, too."""
    early = (
        Rewritten(COMMIT, ANSWERING, ""),
        Rewritten(COMMIT, COMMITTING, f"{ANSWERING.strip()}\n    {COMMITTING}"),
    )
    wanted = Wanted(goals={ORDERS: 1, KILLS: 20})
    with planted(early):
        _, kills = ProcsEngine().explore(answered_is_kept, wanted)
    [finding] = kills.findings[:1]
    assert finding.promise == "P1"
    assert Moment(0, "worker", "killed", "at claim before_commit") in finding.timeline
    _, kills = ProcsEngine().explore(answered_is_kept, wanted)
    assert kills.broken == 0


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


@scenario(engines=("procs",))
def endless(s: Scene) -> None:
    @s.actor()
    async def worker(me: Me) -> None:
        while True:
            await me.sync("again")


@scenario(engines=("procs",))
def foreign(s: Scene) -> None:
    @s.actor()
    async def worker(_: Me) -> None:
        await trio.Event().wait()


@scenario(engines=("procs",))
def idle(_: Scene) -> None:
    pass


@scenario(engines=("procs",))
def undeclared(_: Scene) -> None:
    raise KeyError("settings")


@scenario(engines=("procs",))
def speechless(s: Scene) -> None:
    @s.actor()
    async def worker(me: Me) -> None:
        await me.do(lambda _: object())


@scenario(engines=("procs",))
def unprepared(s: Scene) -> None:
    s.prepare(lambda _: dict[str, int]()["missing"])

    @s.actor()
    async def worker(me: Me) -> None:
        await me.sync("here")


@pytest.mark.parametrize(
    ("of", "complaint"),
    [
        (endless, "has not ended after 30 steps; let every actor end"),
        (
            foreign,
            r"test_process_orders\.py:\d+: worker awaits something the harness cannot order",
        ),
        (idle, r"test_process_orders\.py:\d+: declare at least one actor"),
        (undeclared, "declaring undeclared fails: KeyError"),
        (speechless, "a command returns a object, which one process cannot tell another"),
        (unprepared, "what the scenario prepares fails: KeyError"),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else "",
)
def test_scenario_that_cannot_be_played_is_refused(
    of: Scenario[Scene], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procs_order, "STEPS_MAX", 30)
    with pytest.raises(ScenarioRefused, match=complaint):
        ProcsEngine().explore(of, Wanted())


def test_damaged_file_is_found_at_the_end_of_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """What every order looks at are rows; the whole file is verified before it is replaced."""
    monkeypatch.setattr(procs_world, "verify", lambda _: {"ok": False, "integrity": False})
    [orders] = ProcsEngine().explore(claims(1), Wanted(goals={ORDERS: 1}))
    assert (orders.verdict, orders.not_deterministic) == (Verdict.VIOLATED, [])
    assert orders.findings[0].complaint.startswith("at the end of a database: {'ok': False")
