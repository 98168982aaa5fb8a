"""A notification: its function says what the conversation of the run is told."""

from typing import Any

from pi_workflows.authoring.codec import ANY_JSON
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import NodeDefinition
from pi_workflows.protocol.notices import text_problem
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.messages import CallResult
from pi_workflows.runner.nodes.callbacks import invoke


def run_notify(node: NodeDefinition, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
    """Call the node's function; the output is its text, trimmed, which is still to be written.

    Raises:
        CodeCancelled: async code ended by its cancellation.
        TypeError: the function gave no text.
        ValueError: the text is blank or too long.
        BaseException: from the function.
    """
    said = invoke(node.fn, context, is_async=node.is_async, cancellation=cancellation)
    if not isinstance(said, str):
        raise TypeError(f'node "{node.node_id}" returns its text, not {type(said).__name__}')
    ANY_JSON.dump(said, where=f'node "{node.node_id}" text')
    text = said.strip()
    problem = text_problem(text)
    if problem is not None:
        raise ValueError(f'node "{node.node_id}": {problem}')
    return CallResult(outcome=StepOutcome.OK, output=text)
