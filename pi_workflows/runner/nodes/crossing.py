"""The author's code of a transition into an included workflow or out of it."""

from dataclasses import replace
from typing import Any

from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.mounts import Leaving, Mounted
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.crossings import carried
from pi_workflows.runner.messages import Call, CallResult
from pi_workflows.runner.nodes.callbacks import invoke


def run_crossing(
    call: Call, mounted: Mounted, context: Ctx[Any], cancellation: Cancellation
) -> CallResult:
    """Map and normalise the child's input and settings, or validate what leaves the child.

    Args:
        context: of the parent on the way in, of the child on the way out.

    Raises:
        InputRejected, SettingsRejected, NotJsonError: what was made does not fit.
        BaseException: from the mapper or the validator.
    """
    crossing = call.node.crossing
    if not isinstance(crossing, Leaving):
        made = invoke(call.node.fn, context, is_async=False, cancellation=cancellation)
        child = mounted.child
        entered = CallResult(outcome=StepOutcome.OK, output=mounted.accept(made))
        if child.settings is None:
            return entered
        if crossing is None or crossing.settings is None:
            return replace(entered, settings=child.begin_settings(entered.output))
        given = invoke(crossing.settings, context, is_async=False, cancellation=cancellation)
        return replace(entered, settings=child.settings.accept(given))
    assert crossing.validate is not None, "an exit without a validator runs no code"
    child = mounted.child
    codec = child.exits[crossing.exit_name].codec
    value = crossing.validate(codec.load(carried(child, crossing, call.outputs)))
    output = codec.dump(value, where=f'exit "{crossing.exit_name}" of mount "{crossing.mount}"')
    return CallResult(outcome=StepOutcome.OK, output=output)
