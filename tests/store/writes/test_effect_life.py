"""One effect in the hands of runners, crashes and operators, in any order: it stays honest."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pi_workflows.protocol.states import (
    ActorType,
    CommandOutcome,
    EffectAttemptOutcome,
    StepOutcome,
)
from store import receipts, verification
from store.authority import Permit
from store.blobs import Blob
from store.effect_resolving import Resolution, Verb, resolve_effect
from store.errors import Rejected
from store.proposals import StartAttempt, Transition
from store.receipts import Reply, Request
from store.resources import Actor
from store.run_parking import Departure, park_run

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from store.transaction import Transaction
    from tests.store.writes.conftest import WriteStore, WrittenRun

CONTROL: Final = Permit(Actor(ActorType.CONTROL))
SETTLED: Final = {"applied", "rejected", "cancelled"}
ATTEMPTS_MAX: Final = 4

SETTLEMENTS: Final = st.tuples(st.sampled_from(EffectAttemptOutcome), st.booleans())
ENDS: Final = st.sampled_from([StepOutcome.OK, StepOutcome.FAILED, StepOutcome.TIMED_OUT])
DEPARTURES: Final = st.sampled_from([*Departure])
REASONS: Final = st.sampled_from(["I looked", "somebody told me"])


def graph(recovery: str, backoff_ms: int) -> "JsonObject":
    return {
        "schema": "pi-workflows.definition-snapshot.v1",
        "name": "courier",
        "startAt": "send",
        "maxSteps": 100,
        "nodes": [
            {
                "id": "send",
                "type": "action",
                "effect": {"type": "mail.send", "recovery": recovery},
                "retry": {
                    "attempts": ATTEMPTS_MAX,
                    "backoffMs": backoff_ms,
                    "factor": 2,
                    "maxBackoffMs": 300_000,
                    "outcomes": ["failed", "timed_out"],
                },
            }
        ],
        "edges": [],
        "mounts": [],
        "settings": None,
    }


class EffectLife(RuleBasedStateMachine):
    """A run of one action; whatever is tried, what is refused changes nothing."""

    numbers = itertools.count(1)

    def __init__(self, store: "WriteStore") -> None:
        super().__init__()
        self.store = store
        self.has_child = False

    @initialize(
        recovery=st.sampled_from(["idempotent", "observe", "manual"]),
        backoff_ms=st.sampled_from([0, 0, 5_000]),
    )
    def begin(self, recovery: str, backoff_ms: int) -> None:
        self.number = next(self.numbers)
        self.run: WrittenRun = self.store.create(f"run-{self.number}", graph(recovery, backoff_ms))
        self.last: StartAttempt = self.run.started("send")
        self.started = False
        self.runner_comes_back(is_seen=False)

    def effect(self) -> dict[str, Any]:
        """Status, count, revision and events of the effect; empty before it exists."""
        found = self.store.rows(
            "SELECT e.status, e.attempt_count, r.revision,"
            " (SELECT count(*) FROM events AS v WHERE v.resource_id = e.resource_id)"
            " FROM effects AS e JOIN resources AS r USING (resource_id) WHERE e.effect_id = :id",
            id=self.run.effect_of(self.last),
        )
        names = ("status", "count", "revision", "events")
        return dict(zip(names, found[0], strict=True)) if found else {}

    def try_to(self, command: Callable[[], object]) -> bool:
        """Run a command; say whether it was accepted.

        One that is refused changed nothing. An accepted one wrote at most one event of the effect,
        and exactly one if it moved it; what is settled does not move.
        """
        before, dump = self.effect(), self.store.dump()
        try:
            command()
        except Rejected:
            assert self.store.dump() == dump
            return False
        after = self.effect()
        moved = before.get("status") != after.get("status")
        assert after.get("events", 0) - before.get("events", 0) == int(moved)
        assert not moved or before.get("status") not in SETTLED
        return True

    def propose(self, *transitions: Transition) -> bool:
        return self.has_child and self.try_to(lambda: self.run.advance(*transitions))

    def is_in_hand(self) -> bool:
        return self.has_child and self.started

    @rule(seconds=st.sampled_from([1, 10, 400]))
    def time_passes(self, seconds: int) -> None:
        self.store.now += seconds * 1_000

    @precondition(lambda self: not self.has_child)
    @rule(is_seen=st.booleans())
    def runner_comes_back(self, *, is_seen: bool) -> None:
        """Claim, hello, the next try, its effect; a look comes first where one is due."""
        self.store.now += 400_000
        if not self.try_to(self.run.take):
            return
        self.run.launch()
        self.run.ready()
        self.has_child = True
        self.try_begins()
        self.effect_is_reserved(observed=False)
        if is_seen and self.is_in_hand() and self.effect()["status"] == "pending":
            self.effect_is_reserved(observed=True)

    @precondition(lambda self: self.has_child and not self.started)
    @rule()
    def try_begins(self) -> None:
        self.last = self.run.started("send")
        self.started = self.propose(self.last)

    @precondition(is_in_hand)
    @rule(observed=st.booleans())
    def effect_is_reserved(self, *, observed: bool) -> None:
        reserved = dataclasses.replace(self.run.reserved(self.last), observed=observed)
        self.propose(reserved)
        self.notice_parking()

    @precondition(is_in_hand)
    @rule(end=SETTLEMENTS, back=st.sampled_from([0, 0, 0, 1]), observed=st.booleans())
    def effect_is_settled(
        self, end: tuple[EffectAttemptOutcome, bool], back: int, *, observed: bool
    ) -> None:
        outcome, retry = end
        number = max(1, self.effect().get("count", 1) - back)
        settled = self.run.settled(self.last, outcome, number=number)
        self.propose(dataclasses.replace(settled, retry=retry, observed=observed))
        self.notice_parking()

    @precondition(is_in_hand)
    @rule(unknown=st.booleans())
    def try_fails_and_is_retried(self, *, unknown: bool) -> None:
        outcome = EffectAttemptOutcome.INTERRUPTED if unknown else EffectAttemptOutcome.REJECTED
        self.effect_is_settled((outcome, True), 0, observed=False)
        self.try_ends(StepOutcome.TIMED_OUT if unknown else StepOutcome.FAILED, retry=True)

    @precondition(is_in_hand)
    @rule(end=ENDS, retry=st.booleans())
    def try_ends(self, end: StepOutcome, *, retry: bool) -> None:
        if not self.has_child:
            return
        finished = self.run.finished(self.last, "done", outcome=end)
        if self.propose(dataclasses.replace(finished, retry=retry)):
            self.started = False
        self.notice_parking()

    @precondition(lambda self: self.has_child)
    @rule(departure=DEPARTURES)
    def runner_ends(self, departure: Departure) -> None:
        self.has_child = self.started = False
        self.run.end_child()
        self.try_to(lambda: self.store.do(park_run, self.run.permit, self.run.run_id, departure))

    @precondition(lambda self: self.has_child)
    @rule()
    def server_dies(self) -> None:
        self.has_child = self.started = False
        self.try_to(self.store.recover)

    @rule(verb=st.sampled_from(Verb), reason=REASONS, again=st.booleans())
    def operator_speaks(self, verb: Verb, reason: str, *, again: bool) -> None:
        """Through a receipt, like every command; asked again, it answers the same."""
        output = Blob.of_json("done") if verb is Verb.APPLIED else None
        word = Resolution(verb, reason, output)
        effect = self.run.effect_of(self.last)
        request = Request(
            f"request-{next(self.numbers)}",
            "client",
            "effect.resolve",
            f"key-{next(self.numbers)}",
            bytes(32),
            None,
            1,
        )

        def resolve(tx: "Transaction") -> Reply:
            found = resolve_effect(tx, CONTROL, effect, word)
            return Reply(
                CommandOutcome.ACCEPTED, found.run_revision, {"status": found.status.value}
            )

        ask = partial(self.store.do, receipts.receipted, request, resolve)
        replies: list[Reply] = []
        self.try_to(lambda: replies.append(ask()))
        if again:
            before = self.store.dump()
            repeated = ask()
            assert self.store.dump() == before
            assert repeated.receipt == replies[0].receipt

    @rule()
    def operator_cancels(self) -> None:
        permit = Permit(CONTROL.actor, self.run.held if self.has_child else None)
        if self.try_to(lambda: self.run.cancel(permit=permit)) and self.has_child:
            self.run.end_child()
            self.has_child = self.started = False

    def notice_parking(self) -> None:
        """A child whose run is parked by what it said is told to go."""
        if self.has_child and self.run.status[1] == "parked":
            self.run.end_child()
            self.has_child = self.started = False

    @invariant()
    def nothing_is_violated(self) -> None:
        assert self.store.do(verification.violations) == []

    @invariant()
    def attempts_are_numbered_and_at_most_one_is_open(self) -> None:
        effect = self.effect()
        if not effect:
            return
        rows = self.store.rows(
            "SELECT attempt_number, finished_at IS NULL FROM effect_attempts"
            " WHERE effect_id = :id ORDER BY attempt_number",
            id=self.run.effect_of(self.last),
        )
        assert [number for number, _ in rows] == list(range(1, effect["count"] + 1))
        open_ones = [number for number, is_open in rows if is_open]
        assert open_ones == ([effect["count"]] if effect["status"] == "applying" else [])

    @invariant()
    def doubt_keeps_the_run_from_runners(self) -> None:
        if self.effect().get("status") == "ambiguous":
            assert self.run.status[0] != "running"
            assert not self.has_child


def test_effect_stays_honest_in_any_order_of_tries_crashes_words_and_cancels(
    store: "WriteStore",
) -> None:
    """After each step the database verifies clean, and each move of the effect is one event.

    Case: A48, A50, A52, A57, D18.
    """
    run_state_machine_as_test(
        lambda: EffectLife(store),  # type: ignore[arg-type] # A factory.
        settings=settings(max_examples=40, stateful_step_count=25, deadline=None),
    )
