"""One try of one node in the engine loop: its budget, its effect, its code, and what came of it.

No user code runs before the transition that announces it is accepted. An effect is reserved
before its code acts; one that is applied already is adopted; one that a dead try may have applied
is looked for first, where its author said how.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, cast

from pi_workflows.authoring.budgets import Unlimited
from pi_workflows.authoring.codec import broken_rules
from pi_workflows.authoring.context import EffectIdentity
from pi_workflows.authoring.conversation import NoticeOptions
from pi_workflows.authoring.definition import Definition, Look, NodeDefinition
from pi_workflows.authoring.effects import EffectSpec
from pi_workflows.authoring.mounts import Leaving
from pi_workflows.authoring.timeouts import Computed, Fixed
from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_text
from pi_workflows.protocol.content import CONTENT_BYTES_MAX
from pi_workflows.protocol.definition import TIMEOUT_DEFAULT_MS
from pi_workflows.protocol.notices import notified
from pi_workflows.protocol.states import EffectStatus, StepOutcome
from pi_workflows.runner import transitions
from pi_workflows.runner.crossings import carried, crossing_output
from pi_workflows.runner.heard_settings import HeardSettings
from pi_workflows.runner.history import Scope
from pi_workflows.runner.messages import Call, CallResult, Purpose, bounded_text
from pi_workflows.runner.outgoing import Outgoing, Steps
from pi_workflows.runner.sighting import Sighting, read_sighting
from pi_workflows.runner.transitions import Reservation

CALLBACK_MS: Final = 30_000
"""Bound of a callback that computes a node's timeout or its effect's request."""

_WHAT: Final = {
    Purpose.NODE: "it",
    Purpose.TIMEOUT: "its timeout callback",
    Purpose.REQUEST: "its request callback",
    Purpose.OBSERVE: "the look for its effect",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Which try it is.

    Attributes:
        visit: of the node in the run, from 1.
        local_visit: of the node in the current invocation of its workflow, from 1.
        failed_tries: earlier tries of this visit that ended badly; a crash ends none.
    """

    visit: int
    local_visit: int
    failed_tries: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a try is made in.

    Attributes:
        scope: what the node's code may know.
        child: the workflow that a transition enters or leaves; None for other nodes.
    """

    run_id: str
    scope: Scope
    child: Definition[Any] | None
    outgoing: Outgoing


class Attempt:
    """One try; the caller opens it, runs it and closes it with what `run` returned."""

    def __init__(
        self, around: Surroundings, node: NodeDefinition, attempt_id: str, place: Place
    ) -> None:
        self.node = node
        self.attempt_id = attempt_id
        self._place = place
        self._around = around
        self._timeout_ms: int | None = TIMEOUT_DEFAULT_MS
        self._reservation: Reservation | None = None
        self._settings = HeardSettings(around.scope, around.outgoing)

    def open(self, started_at: int) -> None:
        """Announce the try; `started_at` is UTC epoch milliseconds."""
        starts = transitions.start_attempt(
            self.node, self.attempt_id, self._place.visit, started_at, self._settings.known
        )
        self._around.outgoing.add(starts, self._settings.hear)

    def run(self) -> Steps[CallResult]:
        """Do all that the node asks for and say how it ended."""
        crossing = self.node.crossing
        if isinstance(crossing, Leaving) and crossing.validate is None:
            leaves = CallResult(outcome=StepOutcome.OK, output=self._carried(crossing))
            return self._within_output_limit(self._crossed(leaves))
        failure = yield from self._bind_timeout()
        if failure is not None:
            return failure
        effect = self.node.effect
        if effect is None:
            yield from self._around.outgoing.commit()
        else:
            known = yield from self._reserve(effect)
            if known is not None:
                return known
        result = yield from self._call(Purpose.NODE, self._timeout_ms)
        late = result.outcome is StepOutcome.TIMED_OUT
        if late and self.node.look is not None and self._reservation is not None:
            result = yield from self._look_after_deadline(self.node.look, result)
        return (yield from self._completed(result))

    def _completed(self, result: CallResult) -> Steps[CallResult]:
        """Do what the engine itself has to do when the code has done its work."""
        if result.outcome is not StepOutcome.OK:
            return result
        if self.node.crossing is not None:
            result = self._crossed(result)
        elif isinstance(self.node.conversation, NoticeOptions):
            result = yield from self._notify(result.output)
        return self._within_output_limit(result)

    def _notify(self, text: JsonValue) -> Steps[CallResult]:
        """Have the text written; the message and the step that tells of it are two commits."""
        self._around.outgoing.add(transitions.notify(self.node, self.attempt_id, text))
        told = (yield from self._around.outgoing.commit())[-1]
        message_id, session_id = told.get("messageId"), told.get("sessionId")
        if not isinstance(message_id, str) or not isinstance(session_id, str):
            error = (
                f'NOTIFY_NEEDS_SESSION: node "{self.node.node_id}": the run belongs to no '
                "conversation; start it from a session."
            )
            return CallResult(outcome=StepOutcome.FAILED, error=error)
        return CallResult(outcome=StepOutcome.OK, output=notified(message_id, session_id))

    def reruns(self) -> Steps[bool]:
        """Record how a settings route ended, unless its settings have changed meanwhile.

        Then it has to run again, by itself and as the same try; nothing else was recorded.
        """
        told = (yield from self._around.outgoing.commit())[-1]
        self._settings.hear(told)
        return told.get("reruns") is True

    def run_again(self) -> Steps[CallResult]:
        """Run a settings route once more, on what its settings are now."""
        result = yield from self._call(Purpose.NODE, self._timeout_ms)
        return self._within_output_limit(result)

    def _carried(self, leaving: Leaving) -> JsonValue:
        assert self._around.child is not None
        return carried(self._around.child, leaving, self._around.scope.outputs)

    def _crossed(self, made: CallResult) -> CallResult:
        assert self._around.child is not None
        output = crossing_output(self.node, self._around.child, self._place.visit, made)
        return CallResult(outcome=StepOutcome.OK, output=output)

    def close(self, result: CallResult) -> int | None:
        """Announce how the try ended; it travels with what follows.

        Returns:
            After how many ms the same visit is tried again; None when this was its last try.
        """
        for transition in self._closing(result, self._reservation):
            self._around.outgoing.add(transition)
        if not self._is_retried(result, self._reservation):
            return None
        assert self.node.retry is not None
        if result.retry_after_ms is not None:
            return result.retry_after_ms
        return self.node.retry.wait_ms(self._place.failed_tries + 1)

    def _bind_timeout(self) -> Steps[CallResult | None]:
        """Announce the try's budget; return a result if computing it failed.

        Only a budget or request that user code computes needs a commit of its own: that code may
        run no earlier than the try is recorded as started.
        """
        match self.node.timeout:
            case Fixed(timeout_ms):
                self._timeout_ms = timeout_ms
            case Unlimited():
                self._timeout_ms = None
            case Computed():
                yield from self._around.outgoing.commit()
                result = yield from self._call(Purpose.TIMEOUT, CALLBACK_MS)
                if result.outcome is not StepOutcome.OK:
                    return result
                self._timeout_ms = cast("int | None", result.output)
            case _:
                return None
        self._around.outgoing.add(transitions.set_deadline(self.attempt_id, self._timeout_ms))
        return None

    def _reserve(self, effect: EffectSpec[Any]) -> Steps[CallResult | None]:
        """Obtain the right to run the node's code; return a result if it must not run."""
        outgoing = self._around.outgoing
        scope = self._around.scope
        request: JsonValue = {"input": scope.input, "outputs": dict(scope.outputs)}
        if self.node.request is not None:
            yield from outgoing.commit()
            result = yield from self._call(Purpose.REQUEST, CALLBACK_MS)
            if result.outcome is not StepOutcome.OK:
                return result
            request = result.output
        wanted = transitions.reserve_effect(
            self.node.node_id, self.attempt_id, self._place.visit, effect, request
        )
        outgoing.add(wanted)
        granted = (yield from outgoing.commit())[-1]
        if granted["status"] == EffectStatus.PENDING:
            adopted = yield from self._look_first(granted)
            if adopted is not None:
                return adopted
            outgoing.add({**wanted, "observed": True})
            granted = (yield from outgoing.commit())[-1]
        if granted["status"] != EffectStatus.APPLYING:
            adopted_output = yield from outgoing.body(granted, "result")
            return _not_to_run(self.node, granted, adopted_output)
        self._reservation = _reservation(effect, granted)
        return None

    def _look_first(self, granted: JsonObject) -> Steps[CallResult | None]:
        """Look for what an earlier try may have done; return None when it is not there."""
        look, effect = self.node.look, self.node.effect
        assert look is not None, "only an observed effect is granted so"
        assert effect is not None
        earlier = _reservation(effect, granted)
        seen = yield from self._look(look, earlier)
        if seen.status is EffectStatus.PENDING:
            return None
        result = seen.result(self.node)
        settled = transitions.settle_effect(earlier, result, retried=False)
        self._around.outgoing.add(settled | {"observed": True})
        return result

    def _look_after_deadline(self, look: Look, late: CallResult) -> Steps[CallResult]:
        """Say what a try that was stopped at its deadline has done, as far as a look tells."""
        assert self._reservation is not None
        seen = yield from self._look(look, self._reservation)
        if seen.status is EffectStatus.APPLIED:
            return seen.result(self.node)
        if seen.status is EffectStatus.AMBIGUOUS:
            return replace(late, error=bounded_text(f"{late.error}; {seen.error}"), final=True)
        return replace(late, uncertain=False)

    def _look(self, look: Look, reservation: Reservation) -> Steps[Sighting]:
        result = yield from self._call(Purpose.OBSERVE, look.timeout_ms, reservation)
        return read_sighting(self.node, result)

    def _call(
        self, purpose: Purpose, timeout_ms: int | None, reservation: Reservation | None = None
    ) -> Steps[CallResult]:
        node, around = self.node, self._around
        settings = yield from self._settings.copy()
        reservation = reservation or self._reservation
        late = CallResult(
            outcome=StepOutcome.TIMED_OUT,
            error=f'TIMED_OUT: node "{node.node_id}": {_WHAT[purpose]} ran longer than '
            f"{timeout_ms} ms",
            uncertain=True,
            final=purpose is Purpose.OBSERVE,
        )
        call = Call(
            purpose=purpose,
            node=node,
            run_id=around.run_id,
            attempt_id=self.attempt_id,
            visit=self._place.local_visit,
            attempt=self._place.failed_tries + 1,
            input=around.scope.input,
            outputs=MappingProxyType(around.scope.outputs),
            results=MappingProxyType(around.scope.results),
            effect=None if reservation is None else self._identify(reservation),
            settings=settings,
            timeout_ms=timeout_ms,
            abandon=around.outgoing.advance(self._abandonment(late, reservation)),
        )
        result = yield call
        assert isinstance(result, CallResult)
        around.outgoing.moved_to(result.revision)
        if result.outcome is StepOutcome.TIMED_OUT:
            return replace(late, receipt=result.receipt)
        if result.retry_after_ms is not None and node.retry is not None:
            patience = min(result.retry_after_ms, node.retry.max_backoff_ms)
            return replace(result, retry_after_ms=patience)
        return result

    def _abandonment(self, late: CallResult, reservation: Reservation | None) -> list[JsonObject]:
        """Return what is sent if the code ignores its deadline: nobody can look then."""
        closing = self._closing(late, reservation)
        if reservation is not None and self._reservation is None:  # It was a look that hung.
            closing[0] |= {"observed": True}
        return closing

    def _closing(self, result: CallResult, reservation: Reservation | None) -> list[JsonObject]:
        """Return what closes the try: its effect, if it has one in hand, and then itself."""
        if self.node.crossing is not None and result.outcome is StepOutcome.OK:
            return [transitions.cross_mount(self.node, self.attempt_id, result.output)]
        retried = self._is_retried(result, reservation)
        finished = transitions.finish_attempt(self.node.node_id, self.attempt_id, result)
        if retried:
            finished |= transitions.retry_fields(result) | transitions.asked_wait(result)
        if reservation is None:
            return [finished]
        return [transitions.settle_effect(reservation, result, retried=retried), finished]

    def _is_retried(self, result: CallResult, reservation: Reservation | None) -> bool:
        """Say whether the node's retry lets another try follow.

        What may have happened outside without anybody knowing is not for a retry to repeat,
        unless that is harmless or a look comes first; nor is what did happen.
        """
        rule, effect = self.node.retry, self.node.effect
        if rule is None or result.final or (result.returned and effect is not None):
            return False
        if result.uncertain and reservation is not None and not reservation.repeatable:
            return False
        return rule.allows(result.outcome, self._place.failed_tries + 1)

    def _within_output_limit(self, result: CallResult) -> CallResult:
        if result.outcome is not StepOutcome.OK:
            return result
        size = self._around.outgoing.bodies.size(result.output)
        if size <= CONTENT_BYTES_MAX:
            return result
        return CallResult(
            outcome=StepOutcome.FAILED,
            error=f'OUTPUT_TOO_LARGE: node "{self.node.node_id}" returned {size} bytes of JSON; '
            f"at most {CONTENT_BYTES_MAX} can be recorded. Write large data to a file and return "
            "its path.",
            receipt=result.receipt,
            returned=True,
        )

    def _identify(self, reservation: Reservation) -> EffectIdentity:
        effect = self.node.effect
        assert effect is not None
        key: JsonValue = [
            self._around.run_id,
            effect.effect_type,
            self.node.node_id,
            self._place.visit,
        ]
        return EffectIdentity(
            effect_id=reservation.effect_id,
            effect_type=effect.effect_type,
            key=canonical_text(key),
            attempt_number=reservation.attempt_number,
        )


def _reservation(effect: EffectSpec[Any], granted: JsonObject) -> Reservation:
    return Reservation(
        cast("str", granted["effectId"]), cast("int", granted["attemptNumber"]), effect.recovery
    )


def _not_to_run(node: NodeDefinition, granted: JsonObject, output: JsonValue) -> CallResult:
    """Close a node whose code may not run: adopt an applied effect, else say what it is."""
    receipt: JsonObject = {"actionType": node.action_type, "adopted": True}
    if granted["status"] != EffectStatus.APPLIED:
        said = f": {granted['error']}" if granted.get("error") is not None else ""
        error = f'EFFECT_REJECTED: node "{node.node_id}": its effect did not happen{said}'
        return _last_word(error, receipt)
    broken = broken_rules(node.codec, output, whole="output")
    if broken:
        path, rule = broken[0]
        error = (
            f'EFFECT_OUTPUT_REFUSED: node "{node.node_id}": its effect is applied, but the output '
            f"that was given for it is no {node.codec.label}: {path}: {rule}"
        )
        return _last_word(error, receipt)
    where = f'node "{node.node_id}" output'
    dumped = node.codec.dump(node.codec.load(output), where=where)
    return CallResult(outcome=StepOutcome.OK, output=dumped, receipt=receipt)


def _last_word(error: str, receipt: JsonObject) -> CallResult:
    """Return the end of a try whose code may not run, which no retry changes."""
    return CallResult(
        outcome=StepOutcome.FAILED, error=bounded_text(error), receipt=receipt, final=True
    )
