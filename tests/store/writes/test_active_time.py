"""Active time: what a model's turns spend of an attempt's budget, and what spends nothing."""

from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.states import ActorType
from store import active_time, verification
from store.authority import Permit
from store.errors import IllegalTransitionError
from store.proposals import SetDeadline
from store.resources import Actor
from store.run_pausing import pause_run
from store.run_resuming import resume_run

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore, WrittenRun

CONTROL: Final = Permit(Actor(ActorType.CONTROL))
BUDGET_MS: Final = 10_000
DAY_MS: Final = 86_400_000


class Step:
    """An attempt that an agent works on: its request is pending, its turn is open."""

    def __init__(self, run: "WrittenRun", budget_ms: int | None = BUDGET_MS) -> None:
        self.run, self.store = run, run.store
        run.begin()
        start = run.started("fetch")
        self.attempt_id = start.attempt_id
        budget = [] if budget_ms is None else [SetDeadline(start.attempt_id, budget_ms)]
        run.advance(start, *budget)
        self.store.alter(
            "UPDATE node_attempts SET status = 'waiting'",
            "UPDATE run_queue SET status = 'parked'",
            "UPDATE leases SET owner_type = NULL, owner_id = NULL, token_hash = NULL,"
            " acquired_at = NULL, heartbeat_at = NULL, expires_at = NULL",
        )
        self.store.rows(
            "INSERT INTO interactive_requests (request_id, run_id, attempt_id, target_session_id,"
            " kind, contract_hash, revision, status, created_at, updated_at)"
            " SELECT 'r', run_id, :attempt_id, 's', 'agent', input_hash, 1, 'pending', 1, 1"
            " FROM runs",
            attempt_id=start.attempt_id,
        )
        self.turn("t1")

    def turn(self, turn_id: str) -> None:
        """Let the conversation report that a model's turn has begun."""
        self.store.rows(
            "INSERT INTO resources (resource_id, resource_type, aggregate_key, revision,"
            " created_at, updated_at) VALUES (:id, 'workflow_message', :id, 0, 1, 1)",
            id=f"m-{turn_id}",
        )
        self.store.rows(
            "INSERT INTO workflow_messages (workflow_message_id, resource_id, run_id,"
            " target_session_id, kind, source_id, content_hash, order_number, status,"
            " created_at, updated_at)"
            " SELECT :id, :id, run_id, 's', 'step', :id, input_hash,"
            " (SELECT count(*) + 1 FROM workflow_messages), 'cancelled', 1, 1 FROM runs",
            id=f"m-{turn_id}",
        )
        self.store.rows(
            "INSERT INTO workflow_turns (workflow_turn_id, workflow_message_id, run_id,"
            " target_session_id, state, active_elapsed_ms, started_at)"
            " SELECT :turn_id, :id, run_id, 's', 'started', 0, 1 FROM runs",
            turn_id=turn_id,
            id=f"m-{turn_id}",
        )

    def end_turns(self) -> None:
        self.store.alter(
            "UPDATE workflow_turns SET state = 'ended', stop_reason = 'completed', ended_at = 2"
        )

    def start(self, *, is_ours: bool = False) -> int:
        """Open an interval, or adopt ours; return its number."""
        return self.store.do(active_time.start, self.attempt_id, is_ours=is_ours).interval_number

    def sample(self, elapsed_ms: int) -> None:
        self.store.do(active_time.sample, self.attempt_id, elapsed_ms)

    def stop(self, elapsed_ms: int) -> bool:
        return self.store.do(active_time.stop, self.attempt_id, elapsed_ms)

    @property
    def spent_ms(self) -> int:
        return self.store.do(active_time.spent_ms, self.attempt_id)

    @property
    def left_ms(self) -> int | None:
        return self.store.do(active_time.left_ms, self.attempt_id)

    @property
    def expired(self) -> bool:
        return self.store.do(active_time.has_expired, self.attempt_id)

    def intervals(self) -> list[tuple[int | None, ...]]:
        """Return number, start, last sample, end and length of each."""
        return self.store.rows(
            "SELECT interval_number, started_at, observed_at, ended_at, elapsed_ms"
            " FROM attempt_active_intervals ORDER BY 1"
        )


@pytest.fixture
def step(run: "WrittenRun") -> Step:
    return Step(run)


def test_budget_is_spent_by_all_intervals_together_to_the_millisecond(step: Step) -> None:
    assert step.start() == 1
    step.sample(3_000)
    assert (step.spent_ms, step.left_ms, step.expired) == (3_000, 7_000, False)
    assert step.stop(4_000)
    step.store.now += DAY_MS
    assert (step.spent_ms, step.expired) == (4_000, False), "between two turns nothing is spent"
    assert step.start() == 2
    step.sample(5_999)
    assert (step.left_ms, step.expired) == (1, False)
    step.sample(6_000)
    assert (step.left_ms, step.expired) == (0, True)
    step.sample(7_000)
    assert step.left_ms == 0


def test_wall_clock_is_only_a_label(step: Step) -> None:
    """Forward or back, as a sleep or an operator steps it.

    Case: A91.
    """
    start = step.store.now
    step.start()
    for stepped_ms, elapsed_ms in ((DAY_MS, 1_000), (-2 * DAY_MS, 2_000), (DAY_MS, 3_000)):
        step.store.now += stepped_ms
        step.sample(elapsed_ms)
        assert step.spent_ms == elapsed_ms
    assert step.intervals() == [(1, start, start, None, 3_000)]
    assert not step.expired


def test_elapsed_time_never_falls(step: Step) -> None:
    step.start()
    step.sample(2_000)
    step.sample(1_000)
    assert step.spent_ms == 2_000
    step.stop(500)
    assert step.spent_ms == 2_000


def test_second_start_adopts_and_adds_nothing(step: Step) -> None:
    """Case: A91."""
    assert step.start() == 1
    step.sample(1_000)
    before = step.store.dump()
    assert step.start(is_ours=True) == 1
    assert step.store.dump() == before


def test_stop_that_is_repeated_does_nothing(step: Step) -> None:
    step.start()
    step.store.now += 50
    assert step.stop(1_000)
    before = step.store.dump()
    assert not step.stop(9_000)
    step.sample(9_000)
    assert step.store.dump() == before
    (found,) = step.intervals()
    assert found == (1, step.store.now - 50, step.store.now, step.store.now, 1_000)


def test_recovery_ends_an_interval_at_its_last_sample_and_adds_nothing(step: Step) -> None:
    """What a dead process left open is not adopted: it is recovered first.

    Case: A91, A92.
    """
    step.start()
    step.store.now += 1_000
    step.sample(1_000)
    seen = step.store.now
    step.store.now += DAY_MS
    with pytest.raises(IllegalTransitionError):
        step.start()
    step.store.recover()
    (found,) = step.intervals()
    assert found[2:] == (seen, seen, 1_000)
    assert step.start() == 2
    assert step.spent_ms == 1_000


def test_pause_ends_the_interval_and_what_is_spent_stays_spent(step: Step) -> None:
    """While the run is paused nothing is spent, begun or used up."""
    step.start()
    step.store.now += 1_000
    step.sample(9_999)
    seen = step.store.now
    step.store.now += 500
    step.store.do(pause_run, CONTROL, step.run.run_id)
    (found,) = step.intervals()
    assert found[2:] == (seen, seen, 9_999)
    with pytest.raises(IllegalTransitionError):
        step.start()
    step.store.now += DAY_MS
    assert (step.left_ms, step.expired) == (1, False)
    step.store.do(resume_run, CONTROL, step.run.run_id)
    assert step.start() == 2
    step.sample(1)
    assert step.expired
    assert step.store.do(verification.violations) == []


def test_budget_that_is_used_up_ends_nothing_while_the_run_is_paused(step: Step) -> None:
    step.start()
    step.sample(BUDGET_MS)
    assert step.expired
    step.store.do(pause_run, CONTROL, step.run.run_id)
    assert not step.expired


def test_end_of_the_run_ends_the_interval(step: Step) -> None:
    step.start()
    step.sample(1_000)
    step.run.cancel()
    (found,) = step.intervals()
    assert found[3] == found[2]
    assert step.spent_ms == 1_000


def test_budget_of_zero_is_unlimited(run: "WrittenRun") -> None:
    """Case: A91."""
    step = Step(run, 0)
    step.start()
    step.sample(DAY_MS)
    assert (step.spent_ms, step.left_ms, step.expired) == (DAY_MS, None, False)


def test_clock_of_an_attempt_without_a_stored_timeout_does_not_start(run: "WrittenRun") -> None:
    step = Step(run, None)
    before = step.store.dump()
    with pytest.raises(IllegalTransitionError):
        step.start()
    assert step.store.dump() == before
    assert (step.left_ms, step.expired) == (None, False)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE interactive_requests SET status = 'cancelled'",
        "UPDATE interactive_requests SET kind = 'decision'",
        "UPDATE interactive_requests SET kind = 'checkpoint'",
        "UPDATE runs SET paused = 1",
        "UPDATE workflow_turns SET state = 'ended', stop_reason = 'completed', ended_at = 2",
    ],
)
def test_time_runs_only_in_a_turn_for_what_a_model_is_asked(step: Step, change: str) -> None:
    """Waiting, delivery, decisions of people and pauses are free."""
    step.store.alter(change)
    before = step.store.dump()
    with pytest.raises(IllegalTransitionError):
        step.start()
    assert step.store.dump() == before


def test_samples_are_no_commands(step: Step) -> None:
    """No revision, no event."""
    revision = step.run.revision
    step.start()
    step.sample(1_000)
    step.stop(2_000)
    assert step.run.revision == revision


def test_unknown_attempt_has_spent_nothing(store: "WriteStore") -> None:
    assert store.do(active_time.spent_ms, "nobody's") == 0
    assert store.do(active_time.left_ms, "nobody's") is None
    assert not store.do(active_time.has_expired, "nobody's")
