"""The engine loop: which node runs next and what is committed between two pieces of user code.

The loop is a generator over messages. It yields `Send` and `Call` and is resumed with the `Reply`
or `CallResult`; it does no I/O and owns no clock and no randomness, so a socket drives it in the
child process and an actor drives the same loop in a simulation.

What it guarantees:

- everything that has to be recorded between two pieces of user code travels in one message (only
  a list too large for a frame is cut), so it commits as one;
- no user code runs before the transitions that announce it are accepted;
- an accepted output never runs again: resume goes on behind the last recorded step, or re-runs
  the one attempt that was interrupted, under the same visit number;
- the first refusal ends the loop: nothing is proposed on top of a state the server denies.
"""

from collections.abc import Generator
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar, cast

from pi_workflows.authoring.context import EffectIdentity, StepResult
from pi_workflows.authoring.definition import Definition, NodeDefinition
from pi_workflows.authoring.effects import EffectSpec
from pi_workflows.authoring.timeouts import Computed, Fixed, Unlimited
from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes, canonical_text
from pi_workflows.protocol.definition import (
    TIMEOUT_DEFAULT_MS,
    EndRun,
    GoTo,
    result_record,
    route,
)
from pi_workflows.protocol.states import EffectStatus, RunStatus, StepOutcome, WorkerMessageOutcome
from pi_workflows.runner import transitions
from pi_workflows.runner.history import History, parse_step
from pi_workflows.runner.messages import (
    Call,
    CallResult,
    Ending,
    EngineLoop,
    ExitReason,
    Origin,
    Purpose,
    Reply,
    Send,
)
from pi_workflows.runner.transitions import OUTPUT_BYTES_MAX, Reservation

CALLBACK_MS: Final = 30_000
"""Bound of a callback that computes a node's timeout or its effect's request."""

_WHAT: Final = {
    Purpose.NODE: "it",
    Purpose.TIMEOUT: "its timeout callback",
    Purpose.REQUEST: "its request callback",
}

_T = TypeVar("_T")
_Steps: TypeAlias = Generator[Send | Call, Reply | CallResult, _T]


class _LoopEnded(Exception):
    """The server refused a message or the claim is gone."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason.value)
        self.ending = ending


class Engine:
    """One run, driven from its start or its last durable boundary to its end."""

    def __init__(self, definition: Definition, *, run_id: str, origin: Origin) -> None:
        self._definition = definition
        self._run_id = run_id
        self._origin = origin
        self._history = History()
        self._revision: int | None = None
        self._unsent: list[JsonObject] = []
        self._input: JsonValue = None

    def run(self) -> EngineLoop:
        """Return the loop, which ends with why it ended.

        Closing the generator abandons the current node: what it has not sent stays unrecorded.
        """
        try:
            where, visit = yield from self._take_command()
            while isinstance(where, GoTo):
                if self._history.step_count >= self._definition.max_steps:
                    where = self._too_many_steps(where.node_id)
                    break
                where = yield from self._visit(where.node_id, visit)
                visit = None
            last = self._history.last
            output = last.output if last is not None else None
            self._unsent.append(transitions.finish_run(where, output))
            yield from self._commit()
        except _LoopEnded as ended:
            return ended.ending
        return Ending(ExitReason.FINISHED)

    def _take_command(self) -> _Steps[tuple[GoTo | EndRun, int | None]]:
        """Report ready, read what is recorded, and return where to go on.

        The second value is the visit number of an interrupted attempt; None counts it anew.
        """
        ready = (yield from self._ask("runner.ready", {})).result
        self._input = ready.get("input")
        if ready.get("stepCount"):
            yield from self._read_steps()
        boundary = cast("JsonObject", ready.get("boundary") or {})
        interrupted = cast("JsonObject | None", boundary.get("interrupted"))
        if interrupted is not None:
            return GoTo(cast("str", interrupted["nodeId"])), cast("int", interrupted["visit"])
        if self._history.last is not None:
            return self._after(self._history.last), None
        return GoTo(self._definition.start_at), None

    def _read_steps(self) -> _Steps[None]:
        position: JsonValue = 0
        while position is not None:
            page = (yield from self._ask("run.state", {"fromStep": position})).result
            for stored in cast("list[JsonObject]", page["steps"]):
                self._history.record(parse_step(stored))
            position = page.get("next")

    def _visit(self, node_id: str, visit: int | None) -> _Steps[GoTo | EndRun]:
        """Run one attempt of a node; what closes it stays unsent, to travel with what follows."""
        node = self._definition.nodes[node_id]
        attempt = _Attempt(
            node, self._origin.attempt_id(), visit or self._history.next_visit(node_id)
        )
        started_at = self._origin.now_ms()
        self._unsent.append(
            transitions.start_attempt(node, attempt.attempt_id, attempt.visit, started_at)
        )
        result = yield from self._run_attempt(attempt)
        if attempt.reservation is not None:
            self._unsent.append(transitions.settle_effect(attempt.reservation, result))
        self._unsent.append(transitions.finish_attempt(node_id, attempt.attempt_id, result))
        step = StepResult(
            attempt_id=attempt.attempt_id,
            node_id=node_id,
            node_type=node.node_type.value,
            outcome=result.outcome,
            started_at=started_at,
            finished_at=self._origin.now_ms(),
            output=result.output,
            error=result.error,
        )
        self._history.record(step)
        return self._after(step)

    def _run_attempt(self, attempt: "_Attempt") -> _Steps[CallResult]:
        failure = yield from self._bind_timeout(attempt)
        if failure is None and attempt.node.effect is not None:
            failure = yield from self._reserve(attempt, attempt.node.effect)
        else:
            yield from self._commit()
        if failure is not None:
            return failure
        result = yield from self._call(attempt, Purpose.NODE, attempt.timeout_ms)
        return _within_output_limit(attempt.node, result)

    def _bind_timeout(self, attempt: "_Attempt") -> _Steps[CallResult | None]:
        """Announce the attempt's budget; return a result if computing it failed.

        Only a budget or request that user code computes needs a commit of its own: that code may
        run no earlier than the attempt is recorded as started.
        """
        match attempt.node.timeout:
            case Fixed(timeout_ms):
                attempt.timeout_ms = timeout_ms
            case Unlimited():
                attempt.timeout_ms = None
            case Computed():
                yield from self._commit()
                result = yield from self._call(attempt, Purpose.TIMEOUT, CALLBACK_MS)
                if result.outcome is not StepOutcome.OK:
                    return result
                attempt.timeout_ms = cast("int | None", result.output)
            case _:
                return None
        self._unsent.append(transitions.set_deadline(attempt.attempt_id, attempt.timeout_ms))
        return None

    def _reserve(self, attempt: "_Attempt", effect: EffectSpec) -> _Steps[CallResult | None]:
        """Obtain the right to run the callback; return a result if it must not run."""
        node = attempt.node
        request: JsonValue = {"input": self._input, "outputs": dict(self._history.outputs)}
        if node.request is not None:
            yield from self._commit()
            result = yield from self._call(attempt, Purpose.REQUEST, CALLBACK_MS)
            if result.outcome is not StepOutcome.OK:
                return result
            request = result.output
        self._unsent.append(
            transitions.reserve_effect(
                node.node_id, attempt.attempt_id, attempt.visit, effect, request
            )
        )
        granted = (yield from self._commit())[-1]
        if granted["status"] != EffectStatus.APPLYING:
            return _not_to_run(node, granted)
        attempt.reservation = Reservation(
            cast("str", granted["effectId"]),
            cast("int", granted["attemptNumber"]),
            effect.recovery,
        )
        return None

    def _call(
        self, attempt: "_Attempt", purpose: Purpose, timeout_ms: int | None
    ) -> _Steps[CallResult]:
        node = attempt.node
        what = f'node "{node.node_id}": {_WHAT[purpose]}'
        late = CallResult(
            outcome=StepOutcome.TIMED_OUT,
            error=f"TIMED_OUT: {what} ran longer than {timeout_ms} ms",
        )
        abandon: list[JsonObject] = []
        effect: EffectIdentity | None = None
        if attempt.reservation is not None:
            abandon.append(transitions.settle_effect(attempt.reservation, late))
            effect = self._identify(attempt, attempt.reservation)
        abandon.append(transitions.finish_attempt(node.node_id, attempt.attempt_id, late))
        call = Call(
            purpose=purpose,
            node=node,
            run_id=self._run_id,
            visit=attempt.visit,
            input=self._input,
            outputs=MappingProxyType(self._history.outputs),
            results=MappingProxyType(self._history.results),
            effect=effect,
            timeout_ms=timeout_ms,
            abandon=self._advance(abandon),
        )
        result = yield call
        assert isinstance(result, CallResult)
        if result.revision is not None:
            self._revision = result.revision
        if result.outcome is StepOutcome.TIMED_OUT:
            return CallResult(outcome=late.outcome, error=late.error, receipt=result.receipt)
        return result

    def _identify(self, attempt: "_Attempt", reservation: Reservation) -> EffectIdentity:
        effect = attempt.node.effect
        assert effect is not None
        key: JsonValue = [self._run_id, effect.effect_type, attempt.node.node_id, attempt.visit]
        return EffectIdentity(
            effect_id=reservation.effect_id,
            effect_type=effect.effect_type,
            key=canonical_text(key),
            attempt_number=reservation.attempt_number,
        )

    def _after(self, step: StepResult) -> GoTo | EndRun:
        edge = self._definition.edges.get(step.node_id)
        record = result_record(step.outcome, step.output, step.error)
        return route(edge, step.outcome, step.output, record)

    def _too_many_steps(self, node_id: str) -> EndRun:
        limit = self._definition.max_steps
        return EndRun(
            RunStatus.FAILED,
            f'MAX_STEPS: node "{node_id}" would be step {limit + 1}; workflow '
            f'"{self._definition.name}" allows {limit}. Raise max_steps or end the loop earlier.',
        )

    def _advance(self, batch: list[JsonObject]) -> Send:
        return Send("run.advance", {"transitions": cast("list[JsonValue]", batch)}, self._revision)

    def _commit(self) -> _Steps[list[JsonObject]]:
        """Send what is unsent and return one reply per transition, in order."""
        replies: list[JsonObject] = []
        batches, self._unsent = transitions.into_messages(self._unsent), []
        for batch in batches:
            reply = yield from self._exchange(self._advance(batch))
            replies += cast("list[JsonObject]", reply.result.get("transitions", []))
        return replies

    def _ask(self, operation: str, payload: JsonObject) -> _Steps[Reply]:
        return (yield from self._exchange(Send(operation, payload, self._revision)))

    def _exchange(self, message: Send) -> _Steps[Reply]:
        reply = yield message
        assert isinstance(reply, Reply)
        if reply.outcome is WorkerMessageOutcome.CLAIM_LOST:
            raise _LoopEnded(Ending(ExitReason.CLAIM_LOST))
        if reply.outcome is WorkerMessageOutcome.REJECTED:
            text = reply.error or f"the server refused {message.operation}"
            raise _LoopEnded(Ending(ExitReason.FAILED, text))
        if reply.revision is not None:
            self._revision = reply.revision
        return reply


class _Attempt:
    """What is known of the attempt that is under way."""

    __slots__ = ("attempt_id", "node", "reservation", "timeout_ms", "visit")

    def __init__(self, node: NodeDefinition, attempt_id: str, visit: int) -> None:
        self.node = node
        self.attempt_id = attempt_id
        self.visit = visit
        self.timeout_ms: int | None = TIMEOUT_DEFAULT_MS
        self.reservation: Reservation | None = None


def _not_to_run(node: NodeDefinition, granted: JsonObject) -> CallResult:
    """Close a node whose callback may not run: adopt an applied effect, else say what it is."""
    if granted["status"] != EffectStatus.APPLIED:
        error = f'node "{node.node_id}": its effect is {granted["status"]} and cannot run'
        return CallResult(outcome=StepOutcome.FAILED, error=error)
    kind = "shell" if node.shell is not None else "function"
    return CallResult(
        outcome=StepOutcome.OK,
        output=granted.get("result"),
        receipt={"actionType": kind, "adopted": True},
    )


def _within_output_limit(node: NodeDefinition, result: CallResult) -> CallResult:
    if result.outcome is not StepOutcome.OK:
        return result
    size = len(canonical_bytes(result.output))
    if size <= OUTPUT_BYTES_MAX:
        return result
    return CallResult(
        outcome=StepOutcome.FAILED,
        error=f'OUTPUT_TOO_LARGE: node "{node.node_id}" returned {size} bytes of JSON; '
        f"at most {OUTPUT_BYTES_MAX} can be recorded. Write large data to a file and return "
        "its path.",
        receipt=result.receipt,
    )
