"""What a look for an effect gave, between the code that looked and the loop that decides."""

from dataclasses import dataclass
from typing import cast

from pi_workflows.authoring.definition import NodeDefinition
from pi_workflows.authoring.observation import Absent, Applied, Unknown
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import EffectStatus, StepOutcome
from pi_workflows.runner.messages import CallResult, bounded_text

NO_REASON = "it gave no reason"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What is known of an effect after a look.

    Attributes:
        status: `applied`, `pending` when it is not there, or `ambiguous`.
        value: what its function would have returned; null unless applied.
        error: why nobody knows; None unless ambiguous.
    """

    status: EffectStatus
    value: JsonValue = None
    error: str | None = None

    def result(self, node: NodeDefinition) -> CallResult:
        """Return how a try ends that found this; an absent effect ends none."""
        if self.status is EffectStatus.APPLIED:
            return CallResult(
                outcome=StepOutcome.OK,
                output=self.value,
                receipt={"actionType": node.action_type, "adopted": True, "observed": True},
            )
        return CallResult(outcome=StepOutcome.FAILED, error=self.error, uncertain=True, final=True)


def observed(node: NodeDefinition, seen: object) -> CallResult:
    """Turn what an observing function returned into JSON.

    Raises:
        TypeError: it is neither applied, absent nor unknown.
        NotJsonError: the value of an applied one does not fit the node's output type.
    """
    found: JsonObject
    match seen:
        case Applied(value):
            where = f'node "{node.node_id}" observed value'
            found = {"status": "applied", "value": node.codec.dump(value, where=where)}
        case Absent():
            found = {"status": "pending"}
        case Unknown(reason):
            text = bounded_text(str(reason)) if reason is not None else NO_REASON
            found = {"status": "ambiguous", "error": text}
        case _:
            raise TypeError(
                f"an observing function returns applied(value), absent() or unknown(), not "
                f"{type(seen).__name__}"
            )
    return CallResult(outcome=StepOutcome.OK, output=found)


def read_sighting(node: NodeDefinition, result: CallResult) -> Sighting:
    """Return what a look gave; one that failed or took too long gave no answer."""
    place = f'EFFECT_UNSEEN: node "{node.node_id}": the look for its effect gave no answer'
    if result.outcome is not StepOutcome.OK:
        return Sighting(EffectStatus.AMBIGUOUS, error=bounded_text(f"{place}: {result.error}"))
    found = cast("JsonObject", result.output)
    status = EffectStatus(cast("str", found["status"]))
    if status is EffectStatus.AMBIGUOUS:
        return Sighting(status, error=bounded_text(f"{place}: {found['error']}"))
    return Sighting(status, value=found.get("value"))
