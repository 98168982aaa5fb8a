"""Orders of real store commands: what is true of them, and planted faults that are found."""

import asyncio
import operator
import random
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import apsw
import pytest
import trio

from pi_workflows.chaos.orders_engine import OrdersEngine, playing
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.states import ResourceType
from runtime.chaos.engine import Wanted
from runtime.chaos.explorer import Explorer, Played
from runtime.chaos.outcome import ScenarioRefused, Tally, Verdict
from runtime.chaos.scenario import Scenario
from store import authority, resources
from store.errors import RunUnknownError
from store.transaction import Reading, Transaction

ALL = Wanted(is_all=True)


def explored(one: Scenario[Scene], wanted: Wanted = ALL) -> Tally:
    [tally] = OrdersEngine().explore(one, wanted)
    return tally


@scenario(promises=("P3", "P4"))
def two_owners(s: Scene) -> None:
    """Two workers write under their claims while a lease runs out."""
    job = s.resource("job")

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.write(claim, "work.done")

    s.faults(clock_jump=(31.0,))

    @s.always
    def generations_rise(look: Look) -> None:
        done = [event.lease_generation for event in look.events(job) if event.lease_generation]
        assert done == sorted(done), "an older generation wrote after a newer one"


def test_complete_exploration_holds_and_repeats_alike() -> None:
    tally = explored(two_owners)
    assert tally.verdict is Verdict.HELD
    assert tally.complete
    assert tally.explored == 18
    assert tally.not_deterministic == []
    assert tally.blind_spots == []
    assert "worker-0 at write | worker-1 at claim" in tally.pairs


def test_missing_generation_check_is_found_small_and_repeatable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authority, "check_claim", lambda _held, _claim, _now: None)
    tally = explored(two_owners)
    assert tally.verdict is Verdict.VIOLATED
    [finding, *_] = tally.findings
    assert finding.promise == "P3, P4"
    assert finding.complaint.endswith("an older generation wrote after a newer one")
    # The lease runs out and the other one goes on; nothing else is needed.
    assert finding.choices == {
        "worker-0 after claim#1": "clock +31 s",
        "worker-0 after claim#2": "worker-1",
    }
    assert [(moment.lane, moment.what) for moment in finding.timeline] == [
        ("worker-0", "claim"),
        ("clock", "+31 s"),
        ("worker-1", "claim"),
        ("worker-1", "write"),
        ("worker-0", "write"),
    ]
    assert [moment.generation for moment in finding.timeline] == [1, None, 2, 2, 1]
    repeated = OrdersEngine().repeat(two_owners, finding.choices, finding.seed)
    assert repeated.finding == finding
    monkeypatch.undo()
    assert OrdersEngine().repeat(two_owners, finding.choices, None).finding is None


@pytest.mark.parametrize("harm", ["refused", "rollback", "crash"])
def test_neighbours_of_a_failing_command_keep_what_they_wrote(harm: str) -> None:
    @scenario()
    def neighbours(s: Scene) -> None:
        """One command of a batch fails after it has written."""

        def fail(tx: Transaction) -> None:
            resources.create(tx, ResourceType.MAINTENANCE, "failed")
            if harm == "refused":
                raise RunUnknownError("run-1")
            if harm == "rollback":
                sql = "INSERT OR ROLLBACK INTO projects VALUES ('a', 'a', 1), ('a', 'a', 1)"
                tx.execute(sql, {})
            raise ZeroDivisionError

        @s.actor()
        async def failing(me: Me) -> None:
            with pytest.raises((RunUnknownError, apsw.ConstraintError, ZeroDivisionError)):
                await me.do(fail, point="fail")

        @s.actor(count=2)
        async def writer(me: Me) -> None:
            await me.do(
                lambda tx: resources.create(tx, ResourceType.MAINTENANCE, me.name), point="create"
            )

        s.faults(shared_batch=2)

        @s.finally_
        def writers_are_there(look: Look) -> None:
            found = {known.result for known in look.acknowledged}
            assert len(found) == 2
            sql = "SELECT aggregate_key FROM resources ORDER BY aggregate_key"
            kept = [key for (key,) in look.reading.connection.execute(sql)]
            assert kept == ["writer-0", "writer-1"]

    tally = explored(neighbours)
    assert tally.findings == []
    assert (tally.verdict, tally.complete) == (Verdict.HELD, True)
    assert tally.faults["shared_batch"] > 0
    assert tally.not_deterministic == []


def test_lost_answer_leaves_the_actor_without_knowledge() -> None:
    known: set[tuple[int, int]] = set()

    @scenario()
    def lost(s: Scene) -> None:
        """An answer is lost, and its actor gives up."""
        job = s.resource("job")

        @s.actor()
        async def worker(me: Me) -> None:
            await me.claim(job)

        s.faults(drop=1)

        @s.finally_
        def note(look: Look) -> None:
            known.add((len(look.acknowledged), len(look.events(job, "lease.claimed"))))

    assert explored(lost).verdict is Verdict.HELD
    assert known == {(1, 1), (0, 1), (0, 0)}


def test_outside_refuses_a_generation_below_one_it_has_seen() -> None:
    @scenario()
    def sending(s: Scene) -> None:
        """Two owners send under their generations."""
        job = s.resource("job")

        @s.actor(count=2)
        async def worker(me: Me) -> None:
            claim = await me.claim(job)
            if claim is not None:
                await me.send("mail", me.name, claim)

        s.faults(clock_jump=(31.0,))

        @s.finally_
        def fenced(look: Look) -> None:
            taken = [sent.generation or 0 for sent in look.sent if sent.accepted]
            assert taken == sorted(taken)

    tally = explored(sending)
    assert (tally.verdict, tally.complete) == (Verdict.HELD, True)


def test_refused_preparation_is_told_with_the_place() -> None:
    @scenario()
    def unprepared(s: Scene) -> None:
        """Prepares what is refused."""

        def refuse(_: Transaction) -> None:
            raise RunUnknownError("run-1")

        s.prepare(refuse)

    with pytest.raises(ScenarioRefused, match=r"test_orders_engine.py:\d+: the preparation is"):
        explored(unprepared)


def test_failing_declaration_is_told_with_the_place() -> None:
    @scenario()
    def undeclared(s: Scene) -> None:
        """Declares nothing that makes sense."""
        s.actor(count=0)

    with pytest.raises(ScenarioRefused, match=r"test_orders_engine.py:\d+: count is 0; "):
        explored(undeclared)


def test_seeds_draw_orders_and_are_split_among_parts() -> None:
    parts = [explored(two_owners, Wanted(seeds=range(11), part=(part, 2))) for part in (0, 1)]
    assert [part.explored for part in parts] == [6, 5]
    assert [part.verdict for part in parts] == [Verdict.HELD, Verdict.HELD]
    assert not any(part.complete for part in parts)


def sleeps_for_real(_: Me) -> None:
    operator.attrgetter("sleep")(time)(0)


def reads_the_time(_: Me) -> None:
    time.time()


def draws_a_number(_: Me) -> None:
    random.random()  # noqa: S311 - refused


def starts_a_thread(_: Me) -> None:
    threading.Thread(target=print).start()


def opens_a_socket(_: Me) -> None:
    with socket.socket() as opened:
        opened.connect(("127.0.0.1", 1))


@pytest.mark.parametrize(
    "misdeed", [sleeps_for_real, reads_the_time, draws_a_number, starts_a_thread, opens_a_socket]
)
def test_actor_that_reaches_outside_is_refused_with_the_line(
    misdeed: Callable[[Me], None],
) -> None:
    @scenario()
    def reaching(s: Scene) -> None:
        """Reaches outside between two steps."""

        @s.actor()
        async def worker(me: Me) -> None:
            await me.sync("first")
            misdeed(me)

    line = misdeed.__code__.co_firstlineno + 1
    with pytest.raises(ScenarioRefused, match=r"is not available to an actor; ") as refused:
        explored(reaching)
    assert f"test_orders_engine.py:{line}: " in str(refused.value)


@pytest.mark.parametrize(
    "pause",
    [trio.lowlevel.checkpoint, partial(asyncio.sleep, 0), partial(asyncio.sleep, 1)],
    ids=["trio", "asyncio", "asyncio later"],
)
def test_actor_that_waits_for_a_real_loop_is_refused(
    pause: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    @scenario()
    def waiting(s: Scene) -> None:
        """Sleeps in another loop than ours."""

        @s.actor()
        async def worker(_: Me) -> None:
            await pause()

    with pytest.raises(ScenarioRefused, match="worker awaits something the harness cannot order"):
        explored(waiting)


def test_question_that_writes_breaks_a_promise() -> None:
    @scenario()
    def asking(s: Scene) -> None:
        """Asks, and writes."""

        def question(reading: Reading) -> None:
            sql = "INSERT INTO projects VALUES ('project-1', '/tmp/p', 1)"
            reading.connection.execute(sql)

        @s.actor()
        async def reader(me: Me) -> None:
            await me.read(question)

    assert explored(asking).findings[0].complaint == "reader failed: a question has changed rows"


def test_all_orders_of_a_store_leave_the_traces_they_leave_alone() -> None:
    digests: dict[str, dict[str, str]] = {}
    with playing(two_owners) as played_on:
        explorer = Explorer(played_on, ALL)
        account = explorer._account

        def noting(played: Played, seed: int | None) -> None:
            digests[played.order.digest()] = dict(played.choices.unusual)
            account(played, seed)

        explorer._account = noting  # type: ignore[method-assign]
        explorer.explore(is_all=True)
    assert len(digests) == 18
    for digest, choices in digests.items():
        assert OrdersEngine().repeat(two_owners, choices, None).digest == digest
