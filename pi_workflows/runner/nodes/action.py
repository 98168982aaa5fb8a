"""A function action: a function with an effect on the world, reserved before it runs."""

from typing import Any, Final

from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import NodeDefinition
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.messages import CallResult
from pi_workflows.runner.nodes.compute import run_compute

FUNCTION_RECEIPT: Final[JsonObject] = {"actionType": "function"}


def run_action(node: NodeDefinition, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
    """Call the action's function; see `run_compute`."""
    result = run_compute(node, context, cancellation)
    return CallResult(outcome=result.outcome, output=result.output, receipt=FUNCTION_RECEIPT)
