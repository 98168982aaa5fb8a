"""Pausing: from anywhere but an end, at once, and nothing of it undone but by a resume."""

import dataclasses
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.states import (
    ActorType,
    ParkReason,
    RunStatus,
    StepOutcome,
)
from store import leases, run_pausing, run_queue, run_resuming, run_views, verification
from store.authority import Permit
from store.effect_resolving import Resolution, Verb, resolve_effect
from store.errors import (
    AuthorityError,
    ClaimLost,
    ClaimLostError,
    NotClaimableError,
    RunUnknownError,
    StaleResourceError,
)
from store.resources import Actor
from store.run_parking import Departure
from store.run_pausing import PauseReply, PauseVerdict
from store.run_resuming import EffectAmbiguousError, ResumeVerdict, RunEndedError
from store.server_counts import counts

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.store.writes.conftest import WriteStore, WrittenRun

CONTROL: Final = Actor(ActorType.CONTROL)
NOT_CONTROL: Final = [actor for actor in ActorType if actor is not ActorType.CONTROL]
CLAIM_MS: Final = 30_000
MINUTE_MS: Final = 60_000


def graph(recovery: str = "idempotent") -> "JsonObject":
    """Two nodes: the first may be tried again a minute after it failed, the second acts."""
    retry: JsonObject = {
        "attempts": 3,
        "backoffMs": MINUTE_MS,
        "factor": 1,
        "maxBackoffMs": MINUTE_MS,
        "outcomes": ["failed"],
    }
    effect: JsonObject = {"type": "second.done", "recovery": recovery}
    if recovery == "observe":
        effect["lookTimeoutMs"] = 30_000
    return {
        "schema": "pi-workflows.definition-snapshot.v1",
        "name": "two",
        "startAt": "first",
        "maxSteps": 6,
        "nodes": [
            {"id": "first", "type": "compute", "retry": retry},
            {"id": "second", "type": "action", "effect": effect},
        ],
        "edges": [{"from": "first", "to": "second"}],
        "mounts": [],
        "settings": None,
    }


def pause(run: "WrittenRun", permit: Permit | None = None) -> PauseReply:
    """Pause as the server does: under its own claim, where it has one."""
    given = Permit(CONTROL, run.held) if permit is None else permit
    return run.store.do(run_pausing.pause_run, given, run.run_id)


def resume(run: "WrittenRun") -> run_resuming.ResumeReply:
    return run.store.do(run_resuming.resume_run, Permit(CONTROL), run.run_id)


def paused(run: "WrittenRun") -> bool:
    return bool(run.store.value("SELECT paused FROM runs"))


def tries(run: "WrittenRun", node_id: str) -> list[tuple[int, int, str]]:
    """Return visit, number and status of each try of a node."""
    return run.store.rows(
        "SELECT visit, attempt_number, status FROM node_attempts WHERE node_id = :node_id"
        " ORDER BY attempt_number",
        node_id=node_id,
    )


def display(run: "WrittenRun") -> dict[str, object]:
    shown = run.store.do(run_views.run_view, run.run_id)["display"]
    assert isinstance(shown, dict)
    return dict(shown)


def assert_not_to_be_had(run: "WrittenRun") -> None:
    """Assert that no scheduler is offered the run, and that a claim is refused."""
    assert run.store.do(run_queue.claimable, 10) == []
    with pytest.raises(NotClaimableError):
        run.take()


def test_pause_discards_the_node_under_way_and_a_resume_runs_it_again(run: "WrittenRun") -> None:
    """Same visit, new attempt; what was recorded before stays and does not run again.

    Case: B44.
    """
    run.begin()
    run.work(run.started("fetch"))
    cut = run.started("send")
    run.advance(cut)
    revision = run.revision
    reply = pause(run)
    assert (reply.verdict, reply.status) == (PauseVerdict.PAUSED, RunStatus.RUNNING)
    assert reply.revision == run.revision == revision + 1
    assert reply.cut_off is not None
    assert (reply.cut_off.attempt_id, reply.cut_off.node_id) == (cut.attempt_id, "send")
    assert run.events()[-1] == "run.paused"
    assert (paused(run), run.status, run.expires_at) == (True, ("running", "parked"), None)
    assert tries(run, "send") == [(1, 1, "interrupted")]
    assert_not_to_be_had(run)
    run.end_child()
    assert resume(run).verdict is ResumeVerdict.RESUMABLE
    run.begin()
    assert run.claim.generation == 2
    run.work(run.started("send"))
    assert tries(run, "fetch") == [(1, 1, "completed")]
    assert tries(run, "send") == [(1, 1, "cancelled"), (1, 2, "completed")]
    assert run.store.rows("SELECT step_index FROM run_steps ORDER BY 1") == [(0,), (1,)]


def test_whatever_the_old_runner_says_after_a_pause_is_refused(run: "WrittenRun") -> None:
    run.begin()
    start = run.started("fetch")
    run.advance(start)
    pause(run)
    before = run.store.dump()
    with pytest.raises(ClaimLostError) as lost:
        run.advance(run.finished(start, {"from": "fetch"}))
    assert lost.value.reason is ClaimLost.OWNER_CHANGED
    with pytest.raises(ClaimLostError):
        run.store.do(leases.renew_claim, run.claim)
    assert run.store.dump() == before


def test_step_that_commits_before_the_pause_stays(run: "WrittenRun") -> None:
    run.begin()
    run.work(run.started("fetch"))
    assert pause(run).cut_off is None
    assert run.store.value("SELECT count(*) FROM run_steps") == 1


def test_run_that_was_never_claimed_is_paused_and_stays_queued(run: "WrittenRun") -> None:
    """No claim is needed or taken: nobody has it."""
    reply = pause(run)
    assert (reply.verdict, reply.status, reply.cut_off) == ("paused", "queued", None)
    assert run.status == ("queued", "queued")
    assert run.column("SELECT generation FROM leases WHERE resource_id = :id") == [0]
    assert_not_to_be_had(run)
    resumed = resume(run)
    assert (resumed.verdict, resumed.adopted) == (ResumeVerdict.RESUMABLE, False)
    run.begin()


def test_run_whose_child_is_only_being_launched_is_paused(run: "WrittenRun") -> None:
    run.take()
    run.launch()
    assert pause(run).cut_off is None
    assert run.status == ("running", "parked")
    with pytest.raises(ClaimLostError):
        run.ready()


def test_run_between_two_tries_is_paused_and_does_not_go_on_when_it_is_due(
    store: "WriteStore",
) -> None:
    run = store.create(graph=graph())
    run.begin()
    start = run.started("first")
    failed = run.finished(start, outcome=StepOutcome.FAILED)
    run.advance(start, dataclasses.replace(failed, retry=True))
    assert run.store.do(run_queue.require, run.run_id).error_code == ParkReason.RETRY_BACKOFF
    run.end_child()
    assert pause(run, Permit(CONTROL)).verdict is PauseVerdict.PAUSED
    store.now += 2 * MINUTE_MS
    assert_not_to_be_had(run)
    store.now -= 2 * MINUTE_MS
    resume(run)
    run.begin()
    run.work(run.started("first"))
    assert tries(run, "first") == [(1, 1, "failed"), (1, 2, "completed")]


@pytest.mark.parametrize(
    ("departure", "is_blocked"),
    [
        (Departure.HANDED_OFF, False),
        (Departure.DIED_AFTER_PROGRESS, False),
        (Departure.SOURCE_CHANGED, True),
    ],
)
def test_parked_run_is_paused_and_says_what_else_keeps_it(
    run: "WrittenRun", departure: Departure, *, is_blocked: bool
) -> None:
    """One resume ends both."""
    run.begin()
    run.park(departure)
    pause(run, Permit(CONTROL))
    shown = display(run)
    assert (shown["status"], shown["code"]) == ("paused", "paused")
    assert shown["next"] == f"pi-workflows resume {run.run_id}"
    assert ("besides, the workflow's source is not the one" in str(shown["reason"])) is is_blocked
    run.store.now += MINUTE_MS
    assert_not_to_be_had(run)
    resume(run)
    assert display(run)["status"] == "queued"
    run.begin()


@pytest.mark.parametrize(
    ("recovery", "status"),
    [("idempotent", "pending"), ("observe", "pending"), ("manual", "ambiguous")],
)
def test_effect_under_way_goes_by_its_recovery_kind(
    store: "WriteStore", recovery: str, status: str
) -> None:
    """Nobody saw it end: repeated, looked for first, or left to a person; and due at once."""
    run = store.create(graph=graph(recovery))
    run.begin()
    run.work(run.started("first"))
    start = run.act("second")
    reply = pause(run)
    found = "SELECT status, next_attempt_at FROM effects WHERE effect_id = :id"
    assert store.rows(found, id=run.effect_of(start)) == [(status, None)]
    closed = "SELECT outcome FROM effect_attempts WHERE effect_id = :id"
    assert store.rows(closed, id=run.effect_of(start)) == [("interrupted",)]
    ambiguous = [effect.effect_id for effect in reply.ambiguous]
    assert ambiguous == [run.effect_of(start)] * (status == "ambiguous")
    assert reply.status == run.status[0] == ("waiting" if ambiguous else "running")
    assert store.do(verification.violations) == []


def test_pause_that_leaves_an_effect_ambiguous_outlasts_the_word_about_it(
    store: "WriteStore",
) -> None:
    """First a person says what happened, then somebody resumes; until then nobody has the run."""
    run = store.create(graph=graph("manual"))
    run.begin()
    run.work(run.started("first"))
    start = run.act("second")
    pause(run)
    run.end_child()
    assert run.events()[-2:] == ["run.paused", "run.effect_ambiguous"]
    assert display(run)["status"] == "ambiguous"
    with pytest.raises(EffectAmbiguousError):
        resume(run)
    word = Resolution(Verb.RETRY, "looked: it is not there")
    said = store.do(resolve_effect, Permit(CONTROL), run.effect_of(start), word)
    assert (said.goes_on, said.paused) == (False, True)
    assert not store.do(resolve_effect, Permit(CONTROL), run.effect_of(start), word).goes_on
    assert display(run)["status"] == "paused"
    assert_not_to_be_had(run)
    resume(run)
    run.begin()
    run.act("second")
    assert tries(run, "second") == [(1, 1, "cancelled"), (1, 2, "running")]


def test_of_two_pauses_one_acts_and_the_other_adopts(run: "WrittenRun") -> None:
    run.begin()
    run.advance(run.started("fetch"))
    first = pause(run)
    before = run.store.dump()
    second = pause(run, Permit(CONTROL))
    assert (first.adopted, second.adopted) == (False, True)
    assert (second.verdict, second.cut_off) == (PauseVerdict.ALREADY_PAUSED, None)
    assert first.revision == second.revision
    assert run.store.dump() == before


@pytest.mark.parametrize("how", ["cancelled", "completed"])
def test_pause_after_the_end_is_refused_and_names_it(run: "WrittenRun", how: str) -> None:
    run.walk()
    if how == "completed":
        run.advance(run.completed())
    else:
        run.cancel(permit=Permit(CONTROL, run.claim))
    before = run.store.dump()
    with pytest.raises(RunEndedError, match=f"it is {how}") as refused:
        pause(run, Permit(CONTROL))
    assert refused.value.fields() == {"status": how, "revision": run.revision}
    assert run.store.dump() == before


@pytest.mark.parametrize("begun", [False, True])
def test_paused_run_is_cancelled(run: "WrittenRun", *, begun: bool) -> None:
    """Its pause ends with it."""
    if begun:
        run.begin()
        run.advance(run.started("fetch"))
    pause(run)
    assert run.cancel().verdict == "won"
    assert (run.status, paused(run)) == (("cancelled", "cancelled"), False)
    assert run.store.do(verification.violations) == []


def test_run_of_a_live_owner_is_paused_only_under_its_claim(run: "WrittenRun") -> None:
    run.begin()
    before = run.store.dump()
    with pytest.raises(ClaimLostError) as lost:
        pause(run, Permit(CONTROL))
    assert lost.value.reason is ClaimLost.MISSING_AUTHORITY
    assert run.store.dump() == before


def test_run_whose_owner_has_lapsed_is_paused_under_a_claim_of_its_own(run: "WrittenRun") -> None:
    """The next generation fences the old owner off, whatever the clock does."""
    run.begin()
    run.advance(run.started("fetch"))
    old = run.claim
    run.store.now += CLAIM_MS
    assert pause(run, Permit(CONTROL)).verdict is PauseVerdict.PAUSED
    lease = "SELECT generation, owner_id FROM leases WHERE resource_id = :id"
    assert run.column(lease) == [old.generation + 1]
    assert run.expires_at is None
    run.store.now -= CLAIM_MS
    with pytest.raises(ClaimLostError):
        run.store.do(leases.renew_claim, old)


def test_pause_takes_and_gives_no_try_of_a_runner_that_keeps_dying(run: "WrittenRun") -> None:
    for _ in range(2):
        run.store.now += MINUTE_MS
        run.begin()
        run.park(Departure.DIED_WITHOUT_PROGRESS)
    run.store.now += MINUTE_MS
    run.begin()
    pause(run)
    assert run.store.do(run_queue.require, run.run_id).consecutive_errors == 2


def test_starting_server_leaves_a_paused_run_alone(run: "WrittenRun") -> None:
    run.begin()
    run.advance(run.started("fetch"))
    pause(run)
    run.store.recover()
    assert (paused(run), run.status) == (True, ("running", "parked"))
    assert_not_to_be_had(run)


def test_pause_at_another_revision_is_refused(run: "WrittenRun") -> None:
    before = run.store.dump()
    with pytest.raises(StaleResourceError):
        pause(run, Permit(CONTROL, expected_revision=run.revision + 1))
    assert run.store.dump() == before


@pytest.mark.parametrize("actor", NOT_CONTROL)
def test_only_control_pauses_a_run(run: "WrittenRun", actor: ActorType) -> None:
    before = run.store.dump()
    with pytest.raises(AuthorityError):
        pause(run, Permit(Actor(actor)))
    assert run.store.dump() == before


def test_pause_of_an_unknown_run_is_refused_with_its_nearest_names(store: "WriteStore") -> None:
    store.create("run-12")
    with pytest.raises(RunUnknownError) as refused:
        store.do(run_pausing.pause_run, Permit(CONTROL), "run-13")
    assert refused.value.fields() == {"nearest": ["run-12"]}


def test_server_says_how_many_parked_runs_are_paused(store: "WriteStore") -> None:
    for number, is_paused in ((1, True), (2, True), (3, False)):
        run = store.create(f"run-{number}").begin()
        run.park()
        if is_paused:
            pause(run, Permit(CONTROL))
    assert store.do(counts)["parkedBecause"] == {"handoff": 1, "paused": 2}
