"""Accept a runner's proposals: several transitions, each its own revision and event, one commit.

The runner proposes and never replaces run state. A transition is accepted only if it is the legal
next thing: the node that routing over the stored graph names, the try that is under way, the
effect the node declares, the end that the last step implies. One refusal refuses the message.
"""

from typing import TYPE_CHECKING

from pi_workflows.protocol.definition import EndRun, GoTo, SnapshotNode
from pi_workflows.protocol.states import (
    ATTEMPT_OF_OUTCOME,
    AttemptStatus,
    EffectStatus,
    MountRole,
    RunStatus,
    StepOutcome,
)
from store import attempts, blobs, contents, runs
from store.attempts import AttemptRow
from store.authority import Operation, Permit, revise
from store.contents import StagedContent
from store.effect_errors import EffectNotDueError
from store.errors import ProposalRefused
from store.proposals import (
    Advanced,
    CrossMount,
    FinishAttempt,
    FinishRun,
    Granted,
    Message,
    Notice,
    Notify,
    ReserveEffect,
    SetDeadline,
    SettleEffect,
    StartAttempt,
    Transition,
)
from store.resources import Recorder, node_event
from store.run_crossings import check_crossing
from store.run_effects import RunEffects
from store.run_ending import RunEnd, end_run
from store.run_frontier import Frontier, LastStep
from store.run_notifying import check_notified, notify
from store.run_parking import park_ambiguous
from store.run_retrying import NextTry, failed_tries, park_until
from store.run_settings import RunSettings
from store.run_standing import StandingRow, standing
from store.settings_scopes import Bound
from store.transaction import Transaction

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject, JsonValue


def advance(tx: Transaction, permit: Permit, message: Message) -> Advanced:
    """Apply all transitions of a message, in order, or none.

    Raises:
        ClaimLostError: the sender's generation no longer owns the run.
        StaleResourceError: the run is not at the revision the sender has seen.
        ProposalRefused: a transition is not the legal next thing.
        IllegalTransitionError: a state machine has no such move.
        EffectConflictError: the effect's key was used for another request.
        LongWork: a large body is to be stored or read on the loop.
    """
    found = standing(tx, message.run_id, message.worker_epoch, message.message_id)
    return advance_from(tx, permit, message, found)


def advance_from(
    tx: Transaction, permit: Permit, message: Message, found: StandingRow | None
) -> Advanced:
    """Like `advance`, for what `standing` has found about the message in this transaction."""
    if found is None:
        raise runs.unknown(tx, message.run_id)
    run = found.run
    with revise(tx, permit, run.resource_id, Operation.ADVANCE_RUN, found.held) as recorder:
        work = _Advance(tx, recorder, found, message)
        given = [work.apply(transition) for transition in message.transitions]
        if work.row_untouched:
            runs.touch(tx, run.run_id, detail=work.status_detail)
    return Advanced(
        recorder.revision,
        tuple(one if isinstance(one, Granted) else None for one in given),
        work.ended,
        work.parked,
        work.progressed,
        bindings=tuple(one if isinstance(one, Bound) else None for one in given),
        notices=tuple(one if isinstance(one, Notice) else None for one in given),
    )


class _Advance:
    """The run as it stands between two transitions of one message."""

    def __init__(
        self, tx: Transaction, recorder: Recorder, found: StandingRow, message: Message
    ) -> None:
        run = found.run
        if run.status is not RunStatus.RUNNING or run.paused:
            raise ProposalRefused(f"the run is {'paused' if run.paused else run.status}")
        self._tx = tx
        self._recorder = recorder
        self._run = run
        self._message = message
        self._attempt = found.attempt
        self._frontier = Frontier(tx, run.run_id, found.last, message.definition)
        self._effects = RunEffects(tx, recorder)
        self._settings = RunSettings(tx, recorder, run.run_id, message.definition)
        self._reruns = False
        self.status_detail = run.status_detail
        self.ended = False
        self.parked = False
        self.progressed = False

    @property
    def row_untouched(self) -> bool:
        """True when nothing has touched the run's own row yet."""
        return not self.ended and not self.parked

    def apply(self, transition: Transition) -> Granted | Bound | Notice | None:
        """Apply the next transition; return what it grants.

        What follows a park is dropped, and what follows a settings route that has to run again.
        After an effect that became ambiguous the run waits for a person, and the try that the
        runner thinks finished is not; after a failed try that is to be repeated later, or an
        effect that is not due, it waits for an instant.
        """
        if self.parked or self._reruns:
            return None
        if self.ended:
            raise ProposalRefused("nothing may follow the end of the run")
        match transition:
            case StartAttempt():
                return self._start(transition)
            case FinishAttempt():
                return self._finish(transition)
            case ReserveEffect():
                return self._reserve(transition)
            case Notify():
                return self._notify(transition)
            case _:
                self._apply(transition)
                return None

    def _apply(self, transition: SetDeadline | CrossMount | SettleEffect | FinishRun) -> None:
        match transition:
            case SetDeadline():
                self._set_deadline(transition)
            case CrossMount():
                self._cross(transition)
            case SettleEffect():
                self._settle(transition)
            case FinishRun():
                self._finish_run(transition)

    def _start(self, start: StartAttempt) -> Bound | None:
        node = self._node(start.node_id)
        if node.node_type != start.node_type:
            raise ProposalRefused("the node's type is not the definition's")
        self._check_next(start.node_id)
        visit, number = attempts.next_numbers(self._tx, self._run.run_id, start.node_id)
        if start.visit != visit:
            raise ProposalRefused(f"this is visit {visit} of the node")
        if self._attempt is not None:
            attempts.finish(self._tx, self._attempt, attempts.Finish(AttemptStatus.CANCELLED))
        payload: JsonObject = {"visit": visit, "attemptNumber": number, "nodeType": node.node_type}
        self._recorder.record(node_event("node_started", start.node_id, start.attempt_id, payload))
        self._attempt = AttemptRow(
            start.attempt_id,
            self._run.run_id,
            start.node_id,
            visit,
            number,
            node.node_type,
            AttemptStatus.RUNNING,
            None,
            start.started_at,
            None,
        )
        if not attempts.insert(self._tx, self._attempt):
            raise ProposalRefused("the attempt's id is taken")
        self.status_detail = start.status_detail
        return self._settings.bind(node, start.attempt_id, start.settings_known)

    def _check_next(self, node_id: str) -> None:
        """Refuse a start that is not the legal next one."""
        if self._attempt is not None:
            if self._attempt.status is not AttemptStatus.INTERRUPTED:
                raise ProposalRefused("another attempt is under way")
            if self._attempt.node_id != node_id:
                raise ProposalRefused("the interrupted node has to be repeated first")
        legal = self._frontier.follows()
        if not isinstance(legal, GoTo) or legal.node_id != node_id:
            raise ProposalRefused("this node is not the next one")
        if self._frontier.at_limit(node_id):
            raise ProposalRefused("the run has reached its step limit")

    def _set_deadline(self, budget: SetDeadline) -> None:
        attempt = self._running(budget.attempt_id)
        self._recorder.record(
            node_event(
                "node_deadline_set",
                attempt.node_id,
                attempt.attempt_id,
                {"timeoutMs": budget.timeout_ms or None},
            )
        )
        attempts.set_timeout(self._tx, attempt.attempt_id, budget.timeout_ms)

    def _finish(self, finish: FinishAttempt) -> Bound | None:
        attempt = self._running(finish.attempt_id)
        if attempt.node_id != finish.node_id:
            raise ProposalRefused("the attempt belongs to another node")
        node = self._node(attempt.node_id)
        if node.role is not None and finish.outcome is StepOutcome.OK:
            raise ProposalRefused("this node crosses a mount")
        rebound = self._settings.rerun(node, attempt, finish.outcome)
        if rebound is not None:
            self._reruns = True
            return rebound
        self._effects.check_settled(attempt, node, finish.outcome)
        check_notified(self._tx, attempt, node, finish)
        again = None
        if finish.retry:
            again = self._retry_of(attempt, finish.outcome, finish.retry_after_ms)
        tx = self._tx
        end = attempts.Finish(
            ATTEMPT_OF_OUTCOME[finish.outcome],
            contents.put_optional(tx, finish.output),
            blobs.put_optional(tx, finish.error),
            contents.put_optional(tx, finish.receipt),
        )
        payload: JsonObject = {
            "outcome": finish.outcome.value,
            "outputStored": finish.output is not None,
        }
        if again is not None:
            payload["failedTries"] = again.failed_tries
        event = "node_finished" if finish.outcome is StepOutcome.OK else "node_failed"
        self._recorder.record(node_event(event, attempt.node_id, attempt.attempt_id, payload))
        attempts.finish(tx, attempt, end)
        self._attempt = None
        self.progressed = True
        if again is not None:
            self._effects.check_given_back(attempt, node)
            self._wait_for_retry(again)
            return None
        ended = (finish.outcome, end.output_hash, finish.error_text)
        is_read = not isinstance(finish.output, StagedContent)
        self._append(attempt, node, ended, finish.output_value, is_read=is_read)
        return None

    def _cross(self, cross: CrossMount) -> None:
        attempt = self._running(cross.attempt_id)
        if attempt.node_id != cross.node_id:
            raise ProposalRefused("the attempt belongs to another node")
        node = self._node(attempt.node_id)
        definition, last = self._message.definition, self._frontier.last
        check_crossing(self._tx, definition, attempt, cross, last)
        output_hash = contents.put_optional(self._tx, cross.output)
        entered = cross.role is MountRole.ENTRY
        payload: JsonObject = {"outputStored": True}
        if entered:
            payload["invocation"] = attempt.visit
        else:
            payload["exit"] = node.exit_name
        event = "include_entered" if entered else "include_exited"
        self._recorder.record(node_event(event, attempt.node_id, attempt.attempt_id, payload))
        end = attempts.Finish(ATTEMPT_OF_OUTCOME[StepOutcome.OK], output_hash)
        attempts.finish(self._tx, attempt, end)
        self._attempt = None
        self.progressed = True
        is_read = not isinstance(cross.output, StagedContent)
        ended = (StepOutcome.OK, output_hash, None)
        self._append(attempt, node, ended, cross.output_value, is_read=is_read)

    def _append(
        self,
        attempt: AttemptRow,
        node: SnapshotNode,
        ended: tuple[StepOutcome, bytes | None, str | None],
        output: "JsonValue",
        *,
        is_read: bool,
    ) -> None:
        """Record a finished attempt as the next step.

        Args:
            ended: outcome, hash of the output, text of the error.
            is_read: `output` is the output; else it is read when a switch asks for it.
        """
        index, count = self._frontier.step_count, self._frontier.authored_count
        if node.role is None:
            count += 1
        attempts.append_step(self._tx, self._run.run_id, index, attempt.attempt_id, count)
        step = LastStep(index, count, attempt.node_id, *ended)
        self._frontier.append(step, output, is_read=is_read)

    def _retry_of(
        self, attempt: AttemptRow, outcome: StepOutcome | None, asked_ms: int | None
    ) -> NextTry:
        """Return the try that follows one that ends so; None stands for any outcome.

        Args:
            asked_ms: the wait that the node's code asks for; None takes the declared one.

        Raises:
            ProposalRefused: the node declares none, or no wait that long.
        """
        rule = self._node(attempt.node_id).retry
        failed = failed_tries(self._tx, attempt.run_id, attempt.node_id, attempt.visit) + 1
        outcomes = rule.outcomes if rule is not None and outcome is None else {outcome}
        if rule is None or not any(rule.allows(ended, failed) for ended in outcomes if ended):
            raise ProposalRefused("the node declares no further try")
        if asked_ms is not None and asked_ms > rule.max_backoff_ms:
            raise ProposalRefused("the node declares a shorter longest wait")
        wait_ms = rule.wait_ms(failed) if asked_ms is None else asked_ms
        return NextTry(failed, self._tx.now + wait_ms if wait_ms else None)

    def _wait_for_retry(self, again: NextTry) -> None:
        """Park the run until the next try is due; one due at once follows in this child."""
        if again.due_at is not None:
            park_until(self._tx, self._recorder, self._run.run_id, None, again.due_at)
            self.parked = True

    def _reserve(self, wanted: ReserveEffect) -> Granted | None:
        attempt = self._running(wanted.attempt_id)
        node = self._node(attempt.node_id)
        try:
            return self._effects.reserve(attempt, node, wanted, self._message.owner_id)
        except EffectNotDueError as early:
            park_until(self._tx, self._recorder, self._run.run_id, attempt, early.due_at)
            self.parked = True
            return None

    def _notify(self, wanted: Notify) -> Notice:
        attempt = self._running(wanted.attempt_id)
        return notify(self._tx, self._recorder, attempt, self._node(attempt.node_id), wanted)

    def _settle(self, settle: SettleEffect) -> None:
        retry_at = None
        if settle.retry:
            if self._attempt is None:
                raise ProposalRefused("no attempt is under way")
            retry_at = self._retry_of(self._attempt, None, settle.retry_after_ms).due_at
        status = self._effects.settle(settle, retry_at)
        self.progressed = True
        if status is EffectStatus.AMBIGUOUS:
            park_ambiguous(self._tx, self._recorder, self._run, self._attempt)
            self.parked = True

    def _finish_run(self, finish: FinishRun) -> None:
        if self._attempt is not None:
            raise ProposalRefused("an attempt is not finished")
        self._check_end(finish)
        last = self._frontier.last
        output_hash = None
        if finish.status is RunStatus.COMPLETED and last is not None:
            output_hash = last.output_hash
            if finish.final_output is not None and finish.final_output.blob_hash != output_hash:
                raise ProposalRefused("the final output is not the last accepted output")
        error_hash = blobs.put_optional(self._tx, finish.error)
        end_run(
            self._tx, self._recorder, self._run, RunEnd(finish.status, output_hash, error_hash)
        )
        self.ended = True

    def _check_end(self, finish: FinishRun) -> None:
        """Refuse an end that the last step does not imply."""
        if (finish.status is RunStatus.COMPLETED) != (finish.error is None):
            raise ProposalRefused("an end has an error exactly unless it completed the run")
        legal = self._frontier.follows()
        if isinstance(legal, EndRun):
            if legal.status is not finish.status:
                raise ProposalRefused(f"the last step ends the run as {legal.status}")
            return
        if not self._frontier.at_limit(legal.node_id) or finish.status is not RunStatus.FAILED:
            raise ProposalRefused("the graph goes on from the last step")

    def _node(self, node_id: str) -> SnapshotNode:
        node = self._message.definition.nodes.get(node_id)
        if node is None:
            raise ProposalRefused("the definition has no such node")
        return node

    def _running(self, attempt_id: str) -> AttemptRow:
        attempt = self._attempt
        if (
            attempt is None
            or attempt.attempt_id != attempt_id
            or attempt.status is not AttemptStatus.RUNNING
        ):
            raise ProposalRefused("this attempt is not under way")
        return attempt
