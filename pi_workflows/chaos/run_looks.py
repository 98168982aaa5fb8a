"""What invariants ask of a run: its rows, and whether what its child was told is there."""

from typing import Final

from pi_workflows.chaos.courier import Courier
from pi_workflows.chaos.lease_history import check_lease
from pi_workflows.chaos.scene import Look
from pi_workflows.protocol.states import RunStatus, WorkerMessageOutcome
from runtime.chaos.outcome import PromiseBroken
from store import attempts, effect_rows, run_queue, runs
from store.effect_rows import EffectRow
from store.run_messages import Answered
from store.run_queue import QueueRow
from store.runs import RunRow

ENDS: Final = frozenset(f"run_{end}" for end in ("completed", "failed", "timed_out", "cancelled"))


def check_run(look: Look, run: Courier) -> None:
    """Hold a run to what must be true of it at any moment.

    Its lease has a proper history (`check_lease`); it ends once, and then nobody owns it; a node
    is recorded once; what its child was answered is there.

    Raises:
        PromiseBroken: names the promise.
    """
    check_lease(look, run.resource)
    row, queue = run_row(look, run), queue_row(look, run)
    events = look.events(run.resource)
    ends = [event for event in events if event.event_type in ENDS]
    if len(ends) != int(row.terminal):
        raise PromiseBroken(f"P3: the run is {row.status} after {len(ends)} ends")
    if ends and ends[0] is not events[-1]:
        raise PromiseBroken(f"P4: {events[-1].event_type} follows the end of the run")
    if row.terminal and queue.status in {"queued", "starting", "running", "parked"}:
        raise PromiseBroken(f"P2: the run is {row.status} and its place in the queue is open")
    finished = look.events(run.resource, "node_finished")
    last = attempts.last_step(look.reading, run.run_id)
    steps = 0 if last is None else last.step_index + 1
    if len(finished) > len(run.definition.nodes) or steps < len(finished):
        raise PromiseBroken(f"P2: {len(finished)} nodes have finished, {steps} are recorded")
    _check_told(look, run)


def _check_told(look: Look, run: Courier) -> None:
    revisions = {event.resource_revision for event in look.events(run.resource)}
    for known in look.acknowledged:
        answer = known.result
        if not isinstance(answer, Answered) or answer.outcome is WorkerMessageOutcome.REJECTED:
            continue
        if answer.revision not in revisions:
            raise PromiseBroken(f"P1: {known.actor} was told revision {answer.revision}")


def run_row(look: Look, run: Courier) -> RunRow:
    """Return the run as it is stored."""
    return runs.require(look.reading, run.run_id)


def queue_row(look: Look, run: Courier) -> QueueRow:
    """Return its place in the queue."""
    return run_queue.require(look.reading, run.run_id)


def effect_row(look: Look, run: Courier) -> EffectRow | None:
    """Return the effect of its `act`; None before the first reservation."""
    return effect_rows.find(look.reading, run.effect)


def has_ended(look: Look, run: Courier, status: RunStatus) -> bool:
    """Say whether it has ended so."""
    row = run_row(look, run)
    return row.terminal and row.status is status
