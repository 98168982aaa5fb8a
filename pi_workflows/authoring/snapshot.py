"""The stored form of a definition: what identifies the graph, without its code."""

from typing import TYPE_CHECKING

from pi_workflows.authoring.budgets import Unlimited
from pi_workflows.authoring.mounts import Entry, Leaving
from pi_workflows.authoring.timeouts import Computed, DefaultTimeout, Fixed
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.definition import Edge, PlainEdge
from pi_workflows.protocol.states import MountRole
from pi_workflows.protocol.version import DEFINITION_SNAPSHOT

if TYPE_CHECKING:
    from pi_workflows.authoring.definition import Definition, NodeDefinition


def snapshot_of(definition: "Definition") -> JsonObject:
    """Return `pi-workflows.definition-snapshot.v1` (B §3).

    Nodes are sorted by id and edges by source, so that moving code about in the file changes
    nothing. Callables, computed timeouts and parsers leave at most a mark.
    """
    assert not definition.includes, "only a compiled workflow has a snapshot"
    mounts = sorted(definition.mounts.items())
    snapshot: JsonObject = {
        "schema": DEFINITION_SNAPSHOT,
        "name": definition.name,
        "startAt": definition.start_at,
        "maxSteps": definition.max_steps,
        "nodes": [_node(node) for _, node in sorted(definition.nodes.items())],
        "edges": [_edge(source, edge) for source, edge in sorted(definition.edges.items())],
        "mounts": [_mount(path, mounted.child) for path, mounted in mounts],
        "settings": None if definition.settings is None else definition.settings.rules.stored(),
    }
    if definition.contract_id is not None:
        snapshot["contractId"] = definition.contract_id
    return snapshot


def _mount(path: str, child: "Definition") -> JsonObject:
    stored: JsonObject = {
        "path": path,
        "name": child.name,
        "startAt": child.start_at,
        "maxSteps": child.max_steps,
        "exits": [*sorted(child.exits)],
    }
    if child.contract_id is not None:
        stored["contractId"] = child.contract_id
    if child.settings is not None:
        stored["settings"] = child.settings.rules.stored()
    return stored


def _node(node: "NodeDefinition") -> JsonObject:
    stored: JsonObject = {"id": node.node_id, "type": node.node_type.value}
    stored.update(_place(node))
    stored.update(_timeout(node))
    if node.status_detail is not None:
        stored["statusDetail"] = node.status_detail
    stored.update(_effect(node))
    if node.conversation is not None:
        stored.update(node.conversation.stored())
    if node.retry is not None:
        stored["retry"] = node.retry.stored()
    if node.settings_route:
        stored["settingsRoute"] = True
    return stored


def _timeout(node: "NodeDefinition") -> JsonObject:
    match node.timeout:
        case Fixed(timeout_ms):
            return {"timeoutMs": timeout_ms}
        case Unlimited():
            return {"timeoutMs": None}
        case Computed():
            return {"timeout": "dynamic"}
        case DefaultTimeout():
            return {}  # Absent means the engine's default.


def _place(node: "NodeDefinition") -> JsonObject:
    """Return which mount a node belongs to, and whether it enters or leaves one."""
    placed: JsonObject = {}
    if node.mount_path:
        placed |= {"mountPath": node.mount_path, "localId": node.local_id}
    if isinstance(node.crossing, Entry):
        placed["role"] = MountRole.ENTRY.value
    elif isinstance(node.crossing, Leaving):
        placed["role"] = MountRole.EXIT.value
        placed["exit"] = node.crossing.exit_name
        placed["validated"] = node.crossing.validate is not None
    return placed


def _effect(node: "NodeDefinition") -> JsonObject:
    effect = node.effect
    if effect is None:
        return {}
    declared: JsonObject = {"type": effect.effect_type, "recovery": effect.recovery}
    if node.look is not None:
        declared["lookTimeoutMs"] = node.look.timeout_ms
    return {"form": node.action_type, "effect": declared}


def _edge(source: str, edge: Edge) -> JsonObject:
    if isinstance(edge, PlainEdge):
        return {"from": source, "to": edge.to}
    return {"from": source, "switch": {"on": edge.on, "cases": dict(edge.cases)}}
