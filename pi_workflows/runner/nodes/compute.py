"""A compute node: one pure function."""

from typing import Any

from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import NodeDefinition
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.messages import CallResult
from pi_workflows.runner.nodes.callbacks import invoke


def run_compute(node: NodeDefinition, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
    """Call the node's function and turn what it returns into JSON by its declared type.

    Raises:
        CodeCancelled: async code ended by its cancellation.
        BaseException: from the function, or `NotJsonError` for what it returned.
    """
    value = invoke(node.fn, context, is_async=node.is_async, cancellation=cancellation)
    output = node.codec.dump(value, where=f'node "{node.node_id}" output')
    return CallResult(outcome=StepOutcome.OK, output=output)
