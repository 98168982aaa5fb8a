"""Ask the workflow how its result is to be presented, once the end of the run is recorded.

Whatever goes wrong here is told to the server's log and nowhere else: the run has ended.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pi_workflows.authoring.callables import is_async
from pi_workflows.authoring.codec import ANY_JSON
from pi_workflows.authoring.definition import Definition
from pi_workflows.protocol.states import RunStatus, StepOutcome
from pi_workflows.runner.history import History
from pi_workflows.runner.messages import Call, CallResult, Purpose, Send
from pi_workflows.runner.nodes.callbacks import invoke

if TYPE_CHECKING:
    from pi_workflows.authoring.context import Ctx
    from pi_workflows.protocol.canonical import JsonValue
    from pi_workflows.runner.cancellation import Cancellation
    from pi_workflows.runner.outgoing import Steps

PRESENTATION_MS: Final = 30_000
"""Bound of the callback."""


def present(
    definition: Definition, run_id: str, history: History, end: RunStatus
) -> "Steps[None]":
    """Resolve the presentation instructions and hand them over; never fails.

    Args:
        history: of the whole run, its last step included.
        end: how the run has ended.
    """
    prompt, last = definition.presentation_prompt, history.last
    if prompt is None or last is None:
        return
    completed = end is RunStatus.COMPLETED
    root = history.scopes[""]
    text: JsonValue = prompt if isinstance(prompt, str) else None
    if not isinstance(prompt, str):
        yield Send("runner.progress", {"presenting": True}, None)
        result = yield Call(
            purpose=Purpose.PRESENT,
            node=definition.nodes[last.node_id],
            run_id=run_id,
            attempt_id=last.attempt_id,
            visit=history.visits[last.node_id],
            input=root.input,
            outputs=MappingProxyType({last.node_id: last.output} if completed else {}),
            results=MappingProxyType(root.results),
            effect=None,
            timeout_ms=PRESENTATION_MS,
            abandon=_failed("it took too long and did not stop"),
        )
        assert isinstance(result, CallResult)
        if result.outcome is not StepOutcome.OK:
            late = result.outcome is StepOutcome.TIMED_OUT
            yield _failed("it took too long" if late else str(result.error))
            return
        text = result.output
    if text is not None:
        yield Send("run.present", {"text": text}, None)


def call_prompt(
    definition: Definition, call: Call, context: "Ctx[Any]", cancellation: "Cancellation"
) -> str | None:
    """Call the author's callback with the input and the final output; blank text is none.

    The final output is None unless the run completed.

    Raises:
        CodeCancelled: async code ended by its cancellation.
        TypeError: it gives something else than text or None.
        BaseException: whatever it raises.
    """
    prompt = definition.presentation_prompt
    assert callable(prompt)
    node_id = call.node.node_id
    codec = ANY_JSON if call.node.crossing is not None else call.node.codec
    output = codec.load(call.outputs[node_id]) if node_id in call.outputs else None
    said = invoke(
        lambda ctx: prompt(ctx.input, output),
        context,
        is_async=is_async(prompt),
        cancellation=cancellation,
    )
    if said is None:
        return None
    if not isinstance(said, str):
        raise TypeError(f"presentation_prompt gives text or None, not {type(said).__name__}")
    return said if said.strip() else None


def _failed(error: str) -> Send:
    return Send("runner.progress", {"presentationError": error}, None)
