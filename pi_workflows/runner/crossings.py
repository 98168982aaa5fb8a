"""Into an included workflow and out of it again: what the two transitions record (B §1.3)."""

from collections.abc import Mapping
from typing import Any, cast

from pi_workflows.authoring.definition import Definition, NodeDefinition
from pi_workflows.authoring.mounts import Entry, Leaving
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import exit_of
from pi_workflows.protocol.version import INCLUDE_ENTRY


def crossing_output(node: NodeDefinition, visit: int, made: JsonValue) -> JsonObject:
    """Return what a transition records.

    Args:
        visit: of the transition; a failed entry ends the run, so it is the invocation's number.
        made: the child's input on the way in, what is carried out on the way out.
    """
    if isinstance(node.crossing, Entry):
        return {"schema": INCLUDE_ENTRY, "invocation": visit, "input": made}
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
