"""What must hold of a database at rest, after whatever happened to it."""

from collections import defaultdict
from pathlib import Path

from pi_workflows.chaos.journal import Journal
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.messages import Purpose
from runtime.chaos.outcome import PromiseBroken
from store import definitions, projection_steps, runs
from store.event_log import EventRow, every_event
from store.opening import open_reader
from store.transaction import Reading
from store.verification import verify

_COMPLETED = "run_completed"
_CLAIMED = "lease.claimed"


class InvariantBroken(PromiseBroken):
    """A promise of the product does not hold.

    Attributes:
        promise: which of `docs/guarantees.md`; None if it is none of them alone.
    """

    def __init__(self, complaint: str, promise: str | None = None) -> None:
        super().__init__(complaint)
        self.promise = promise


def check_at_rest(database: Path, journal: Journal, acknowledged: list[str], now: int) -> None:
    """Check a database that nobody has open.

    Args:
        database: the real file; one that does not exist yet holds nothing to check.
        journal: what user code was really run.
        acknowledged: runs whose start was answered.
        now: UTC epoch ms.

    Raises:
        InvariantBroken: says which promise is broken, and by what.
    """
    if not database.exists():
        if acknowledged:
            raise InvariantBroken(f"no database holds {acknowledged}", "P1")
        return
    reader = open_reader(database)
    try:
        with reader.snapshot() as connection:
            reading = Reading(connection, now)
            _check_verified(reading)
            events = every_event(reading)
            _check_revisions(events)
            _check_completions(events)
            _check_generations(events)
            _check_acknowledged(reading, acknowledged)
            _check_repetitions(reading, journal)
            _check_manual_effects(journal)
    finally:
        reader.close()


def _check_verified(reading: Reading) -> None:
    found = verify(reading)
    if found["ok"] is not True:
        promise = "P2" if found["violations"] else "P12"
        raise InvariantBroken(f"state verify finds {found['violations'] or 'damage'}", promise)


def _check_revisions(events: list[EventRow]) -> None:
    """Each resource has the events of its revisions 1, 2, 3, …, in this order."""
    last: dict[str, int] = defaultdict(int)
    for event in events:
        if event.resource_revision != last[event.resource_id] + 1:
            raise InvariantBroken(
                f"{event.resource_id} goes from revision {last[event.resource_id]}"
                f" to {event.resource_revision}",
                "P2",
            )
        last[event.resource_id] = event.resource_revision


def _check_completions(events: list[EventRow]) -> None:
    """No run completes twice."""
    completed = [event.resource_id for event in events if event.event_type == _COMPLETED]
    twice = {resource for resource in completed if completed.count(resource) > 1}
    if twice:
        raise InvariantBroken(f"completed more than once: {sorted(twice)}", "P4")


def _check_generations(events: list[EventRow]) -> None:
    """The generation of a lease rises with each claim, and nobody writes under an older one."""
    newest: dict[str, int] = defaultdict(int)
    for event in events:
        generation = event.lease_generation
        if generation is None:
            continue
        is_claim = event.event_type == _CLAIMED
        if generation < newest[event.resource_id] + is_claim:
            raise InvariantBroken(
                f"{event.event_type} of {event.resource_id} is of generation {generation}, after"
                f" {newest[event.resource_id]}",
                "P3" if is_claim else "P4",
            )
        newest[event.resource_id] = generation


def _check_acknowledged(reading: Reading, acknowledged: list[str]) -> None:
    """A run whose start was answered is there."""
    lost = [run_id for run_id in acknowledged if runs.find(reading, run_id) is None]
    if lost:
        raise InvariantBroken(f"acknowledged and lost: {lost}", "P1")


def _check_repetitions(reading: Reading, journal: Journal) -> None:
    """What was recorded as done is never run again.

    Of the executions of one visit of a node, only the last may be that of an attempt recorded
    with its output. A settings route alone runs more than once within one attempt.
    """
    done = _attempts_with_output(reading, {e.run_id for e in journal.executions})
    executed: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for execution in journal.executions:
        if execution.purpose is Purpose.NODE:
            key = (execution.run_id, execution.node_id, execution.visit)
            executed[key].append(execution.attempt_id)
    for (run_id, node_id, visit), attempts in executed.items():
        if len(attempts) > 1 and _is_settings_route(reading, run_id, node_id):
            attempts = [*dict.fromkeys(attempts)]  # noqa: PLW2901 - one try, however often it ran
        repeated = [attempt for attempt in attempts[:-1] if attempt in done]
        if repeated:
            raise InvariantBroken(
                f"visit {visit} of node {node_id} of {run_id} was run again after {repeated[0]}",
                "P1",
            )


def _is_settings_route(reading: Reading, run_id: str, node_id: str) -> bool:
    digest = runs.require(reading, run_id).definition_digest
    return definitions.load(reading, digest).nodes[node_id].settings_route


def _check_manual_effects(journal: Journal) -> None:
    """What cannot be told from outside is carried out once at most, whoever dies."""
    carried_out: dict[str, str] = {}
    for execution in journal.executions:
        effect_id = execution.effect_id
        if effect_id is None or not execution.is_manual or execution.purpose is not Purpose.NODE:
            continue
        if effect_id in carried_out:
            raise InvariantBroken(
                f"manual effect {effect_id} was carried out by {carried_out[effect_id]}"
                f" and again by {execution.runner}",
                "P5",
            )
        carried_out[effect_id] = execution.runner


def _attempts_with_output(reading: Reading, runs: set[str]) -> set[str]:
    return {
        step.attempt_id
        for run_id in sorted(runs)
        for step in projection_steps.steps(reading, run_id)
        if step.outcome is StepOutcome.OK
    }
