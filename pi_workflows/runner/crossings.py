"""Into an included workflow and out of it again: what the two transitions record (B §1.3)."""

from collections.abc import Mapping
from typing import Any, cast

from pi_workflows.authoring.definition import Definition, NodeDefinition
from pi_workflows.authoring.mounts import Entry, Leaving
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import exit_of
from pi_workflows.protocol.version import INCLUDE_ENTRY
from pi_workflows.runner.messages import CallResult


def crossing_output(
    node: NodeDefinition, child: Definition[Any], visit: int, result: CallResult
) -> JsonObject:
    """Return what a transition records.

    Args:
        child: the workflow that is entered or left.
        visit: of the transition; a failed entry ends the run, so it is the invocation's number.
        result: what was made: the child's input on the way in, and its settings if it declares
            some; what is carried out on the way out.
    """
    made = result.output
    if isinstance(node.crossing, Entry):
        entered: JsonObject = {"schema": INCLUDE_ENTRY, "invocation": visit, "input": made}
        if child.settings is not None:
            entered["settings"] = result.settings
        return entered
    assert isinstance(node.crossing, Leaving)
    return {"exit": node.crossing.exit_name, "output": made}


def carried(
    child: Definition[Any], leaving: Leaving, outputs: Mapping[str, JsonValue]
) -> JsonValue:
    """Return what leaves a child by an exit, before its validator: its terminal node's output.

    A node that is itself an exit of an inner mount gives what that one carried.

    Args:
        outputs: of the child's scope.
    """
    source = child.exits[leaving.exit_name].source
    left = exit_of(source)
    if left is None:
        return outputs[source]
    return cast("JsonObject", outputs[left[0]])["output"]
