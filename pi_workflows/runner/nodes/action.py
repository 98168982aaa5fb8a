"""A function action: a function with an effect on the world, reserved before it runs."""

from collections.abc import Callable
from typing import Any, Final

from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import NodeDefinition
from pi_workflows.authoring.errors import NotJsonError
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.messages import CallResult
from pi_workflows.runner.nodes.callbacks import invoke

FUNCTION_RECEIPT: Final[JsonObject] = {"actionType": "function"}


def run_action(
    node: NodeDefinition,
    context: Ctx[Any],
    cancellation: Cancellation,
    *,
    describe: Callable[[BaseException], str],
) -> CallResult:
    """Call the action's function and turn what it returns into JSON by its declared type.

    Returns:
        `failed` with `returned` for a function that did its work and gave what cannot be stored.

    Raises:
        CodeCancelled: async code ended by its cancellation.
        BaseException: from the function.
    """
    value = invoke(node.fn, context, is_async=node.is_async, cancellation=cancellation)
    try:
        output = node.codec.dump(value, where=f'node "{node.node_id}" output')
    except NotJsonError as error:
        return CallResult(
            outcome=StepOutcome.FAILED,
            error=describe(error),
            receipt=FUNCTION_RECEIPT,
            returned=True,
        )
    return CallResult(outcome=StepOutcome.OK, output=output, receipt=FUNCTION_RECEIPT)
