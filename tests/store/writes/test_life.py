"""Any order of commands: each is a legal move or is refused and changes nothing."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pi_workflows.protocol.states import (
    ActorType,
    EffectAttemptOutcome,
    RunStatus,
    StepOutcome,
)
from store import leases, verification
from store.authority import Permit
from store.blobs import Blob
from store.errors import Rejected
from store.machines.attempt import ATTEMPT_MACHINE
from store.machines.effect import EFFECT_MACHINE
from store.machines.queue import QUEUE_MACHINE
from store.machines.run import RUN_MACHINE
from store.proposals import FinishRun, SetDeadline, StartAttempt
from store.resources import Actor
from store.run_parking import Departure
from store.run_pausing import pause_run
from store.run_restarting import restart_run
from store.run_resuming import resume_run
from store.transaction import Reading

if TYPE_CHECKING:
    from store.machines.table import Machine
    from store.proposals import Transition
    from tests.store.writes.conftest import WriteStore

CONTROL: Final = Actor(ActorType.CONTROL)
NODES: Final = ("fetch", "send", "note")
NEXT_NODE: Final = {
    ("fetch", "completed"): "send",
    ("send", "completed"): "note",
    ("note", "completed"): "end",
}
PLACES: Final[dict[str, tuple[str, "Machine[Any, Any]", set[str]]]] = {
    "runs": ("SELECT run_id, status FROM runs", RUN_MACHINE, {"queued"}),
    "run_queue": ("SELECT run_id, status FROM run_queue", QUEUE_MACHINE, {"queued"}),
    "node_attempts": (
        "SELECT attempt_id, status FROM node_attempts",
        ATTEMPT_MACHINE,
        {"pending", "running"},
    ),
    "effects": ("SELECT effect_id, status FROM effects", EFFECT_MACHINE, {"pending"}),
}
"""Where a machine's states are stored, and in which of them a row may begin."""

Statuses = dict[str, dict[str, str]]


def reachable(machine: "Machine[Any, Any]", start: str) -> set[str]:
    """Return the states that moves of the table lead to from `start`, itself included."""
    found = {start}
    while True:
        further = {str(to) for (state, _), to in machine.moves.items() if str(state) in found}
        if further <= found:
            return found
        found |= further


class Life(RuleBasedStateMachine):
    """One run in the hands of a server that tries anything at any time."""

    numbers = itertools.count(2)

    def __init__(self, store: "WriteStore") -> None:
        super().__init__()
        self.store = store
        self.run = store.create(f"run-{next(self.numbers)}")
        self.last: StartAttempt | None = None
        self.has_child = False

    def statuses(self) -> Statuses:
        return {table: dict(self.store.rows(sql)) for table, (sql, _, _) in PLACES.items()}

    def try_to(self, command: Callable[[], object]) -> bool:
        """Run a command; a refused one changed nothing, an accepted one moved legally."""
        before, dump = self.statuses(), self.store.dump()
        try:
            command()
        except Rejected:
            assert self.store.dump() == dump
            return False
        for table, now in self.statuses().items():
            _, machine, first = PLACES[table]
            for key, status in now.items():
                starts = {before[table][key]} if key in before[table] else first
                assert any(status in reachable(machine, start) for start in starts), table
        return True

    @rule(seconds=st.sampled_from([1, 29, 31, 120]))
    def time_passes(self, seconds: int) -> None:
        self.store.now += seconds * 1_000

    @precondition(lambda self: not self.has_child)
    @rule(how_far=st.sampled_from([3, 3, 3, 2, 1]))
    def server_takes_the_run_up(self, how_far: int) -> None:
        """Claim it, launch a child, hear it say hello; or stop on the way."""
        if self.try_to(self.run.take) and how_far > 1:
            self.has_child = self.try_to(self.run.launch)
        if self.has_child and how_far > 2:
            self.try_to(self.run.ready)

    @precondition(lambda self: self.run.held)
    @rule(data=st.data())
    def child_proposes(self, data: st.DataObject) -> None:
        kinds = st.lists(st.sampled_from(list(PROPOSALS)), min_size=1, max_size=4)
        transitions = [PROPOSALS[kind](self, data) for kind in data.draw(kinds)]
        self.try_to(lambda: self.run.advance(*transitions))

    @precondition(lambda self: self.has_child)
    @rule(is_good=st.sampled_from([True, True, False]))
    def child_does_its_duty(self, *, is_good: bool) -> None:
        """Go where the graph says; an effect that is not good is left in the air."""
        done = self.store.rows(
            "SELECT node_id, status FROM run_steps JOIN node_attempts USING (attempt_id)"
            " WHERE run_steps.run_id = :run_id ORDER BY step_index",
            run_id=self.run.run_id,
        )
        node = NEXT_NODE.get(done[-1], "fetch") if done else "fetch"
        if node == "end":
            self.try_to(lambda: self.run.advance(self.run.completed()))
            return
        has_effect = node != "fetch"
        visit = 1 + sum(row[0] == node for row in done)
        begun = self.last = self.run.started(node, visit=visit)
        if not self.try_to(lambda: self.run.advance(begun)):
            return
        last_words: list[Transition] = []
        if has_effect:
            self.try_to(lambda: self.run.advance(self.run.reserved(begun)))
            last_words.append(self.run.settled(begun, EffectAttemptOutcome.APPLIED))
        last_words.append(self.run.finished(begun, {"from": node}))
        if is_good or not has_effect:
            self.try_to(lambda: self.run.advance(*last_words))

    @precondition(lambda self: self.run.held)
    @rule(departure=st.sampled_from(Departure))
    def child_ends_and_the_run_is_parked(self, departure: Departure) -> None:
        self.run.end_child()
        self.has_child = False
        self.try_to(lambda: self.run.park(departure))

    @precondition(lambda self: self.run.held and not self.has_child)
    @rule()
    def owner_releases(self) -> None:
        self.try_to(lambda: self.store.do(leases.release, self.run.claim))

    @precondition(lambda self: self.last is not None)
    @rule(owned=st.booleans(), reason=st.sampled_from(["enough", "wrong"]))
    def control_cancels(self, *, owned: bool, reason: str) -> None:
        permit = Permit(CONTROL, self.run.held if owned else None)
        self.try_to(lambda: self.run.cancel(reason, permit=permit))

    @rule(owned=st.booleans())
    def control_pauses(self, *, owned: bool) -> None:
        permit = Permit(CONTROL, self.run.held if owned else None)
        self.try_to(lambda: self.store.do(pause_run, permit, self.run.run_id))

    @rule()
    def control_resumes(self) -> None:
        self.try_to(lambda: self.store.do(resume_run, Permit(CONTROL), self.run.run_id))

    @rule()
    def control_restarts(self) -> None:
        permit = Permit(CONTROL, expected_revision=self.run.revision)
        self.try_to(lambda: self.store.do(restart_run, permit, self.run.run_id))

    @rule()
    def server_dies_and_its_successor_recovers(self) -> None:
        self.try_to(self.store.recover)
        self.has_child = False

    @invariant()
    def every_promise_is_kept(self) -> None:
        reading = Reading(self.store.writer.connection, self.store.now)
        assert verification.violations(reading) == []

    def newest(self) -> StartAttempt:
        return self.last or self.run.started("fetch")


def start(life: Life, data: st.DataObject) -> "Transition":
    node, visit = data.draw(st.sampled_from(NODES)), data.draw(st.integers(1, 3))
    life.last = life.run.started(node, visit=visit)
    return life.last


def set_deadline(life: Life, data: st.DataObject) -> "Transition":
    return SetDeadline(life.newest().attempt_id, data.draw(st.sampled_from([0, 5_000])))


def finish(life: Life, data: st.DataObject) -> "Transition":
    outcome = data.draw(st.sampled_from(StepOutcome))
    return life.run.finished(life.newest(), {"from": "here"}, outcome=outcome)


def reserve(life: Life, data: st.DataObject) -> "Transition":
    newest = life.newest()
    acting = newest if newest.node_id != "fetch" else life.run.started("send")
    return life.run.reserved(acting, request=data.draw(st.sampled_from(["please", "now"])))


def settle(life: Life, data: st.DataObject) -> "Transition":
    newest = life.newest()
    acting = newest if newest.node_id != "fetch" else life.run.started("send")
    outcomes = [outcome for outcome in EffectAttemptOutcome if outcome != "interrupted"]
    outcome = data.draw(st.sampled_from(outcomes))
    return life.run.settled(acting, outcome, number=data.draw(st.integers(1, 2)))


def finish_run(_: Life, data: st.DataObject) -> "Transition":
    status = data.draw(
        st.sampled_from([RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.TIMED_OUT])
    )
    error = None if status is RunStatus.COMPLETED else Blob.of_text("it did not work")
    return FinishRun(status, None, error)


PROPOSALS: Final[dict[str, Callable[[Life, st.DataObject], "Transition"]]] = {
    "start": start,
    "deadline": set_deadline,
    "finish": finish,
    "reserve": reserve,
    "settle": settle,
    "end": finish_run,
}


def test_any_order_of_commands_is_legal_moves_and_refusals(store: "WriteStore") -> None:
    """Runs, queue rows, attempts and effects move only as their tables say.

    Terminal states are never left, every refusal leaves every row of the database as it was, and
    the verifier finds nothing at any time.

    Case: A78.
    """
    run_state_machine_as_test(
        lambda: Life(store),  # type: ignore[arg-type] # A factory, as its documentation says.
        settings=settings(max_examples=25, stateful_step_count=30, deadline=None),
    )
