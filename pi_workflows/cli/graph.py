"""The graph of a compiled workflow as readable text, as Mermaid source and as DOT source.

All three are made of `pi-workflows.definition-snapshot.v1` alone.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pi_workflows.cli.node_names import shown_node
from pi_workflows.cli.output import safe_line
from pi_workflows.protocol.definition import (
    DefinitionSnapshot,
    PlainEdge,
    SnapshotNode,
    SwitchEdge,
)
from pi_workflows.protocol.states import MountRole

_INDENT: Final = "  "


@dataclass(frozen=True, slots=True)
class Arrow:
    """One way from a node to another one.

    Attributes:
        case: the case of a switch that leads this way; None for a plain edge.
    """

    source: str
    to: str
    case: str | None


def draw_text(graph: DefinitionSnapshot) -> str:
    """Return every node with the ways out of it; what is included is indented."""
    lines = [f"{graph.name}: starts at {shown_node(graph.start_at)}"]
    for node_id in _grouped(graph):
        node = graph.nodes[node_id]
        indent = _INDENT * _depth(node)
        lines += ["", f"{indent}{shown_node(node_id)}  {_kind(graph, node)}"]
        edge = graph.edges.get(node_id)
        if isinstance(edge, SwitchEdge):
            lines.append(f"{indent}{_INDENT}on {edge.on}")
        arrows = _arrows(graph, node_id)
        if not arrows and node.role is not MountRole.ENTRY:
            lines.append(f"{indent}{_INDENT}ends the run")
        width = max((len(arrow.case or "") for arrow in arrows), default=0)
        for arrow in arrows:
            case = "" if arrow.case is None else f"{safe_line(arrow.case):<{width}} "
            lines.append(f"{indent}{_INDENT}{case}-> {shown_node(arrow.to)}")
    return "\n".join(lines)


def draw_mermaid(graph: DefinitionSnapshot) -> str:
    """Return source for Mermaid: a flow chart, each mount a subgraph."""
    names = _short_names(graph)
    lines = ["flowchart TD"]

    def box(node_id: str, indent: str) -> str:
        left, right = ("([", "])") if graph.nodes[node_id].role else ("[", "]")
        return f'{indent}{names[node_id]}{left}"{_mermaid(_label(graph, node_id))}"{right}'

    def group(mount: str, number: int, indent: str) -> list[str]:
        title = _mermaid(f"{shown_node(mount)}: {graph.mounts[mount].name}")
        return [f'{indent}subgraph m{number}["{title}"]']

    lines += _nested(graph, box, group, "end")
    lines.append(f"{_INDENT}start((start)) --> {names[graph.start_at]}")
    for arrow in _all_arrows(graph):
        case = "" if arrow.case is None else f'|"{_mermaid(arrow.case)}"|'
        lines.append(f"{_INDENT}{names[arrow.source]} -->{case} {names[arrow.to]}")
    return "\n".join(lines)


def draw_dot(graph: DefinitionSnapshot) -> str:
    """Return source for Graphviz: a directed graph, each mount a cluster."""
    names = _short_names(graph)
    lines = [f"digraph {_dot(graph.name)} {{", f"{_INDENT}node [shape=box];"]

    def box(node_id: str, indent: str) -> str:
        shape = ", shape=ellipse" if graph.nodes[node_id].role else ""
        return f"{indent}{names[node_id]} [label={_dot(_label(graph, node_id))}{shape}];"

    def group(mount: str, number: int, indent: str) -> list[str]:
        title = _dot(f"{shown_node(mount)}: {graph.mounts[mount].name}")
        return [f"{indent}subgraph cluster_{number} {{", f"{indent}{_INDENT}label={title};"]

    lines += _nested(graph, box, group, "}")
    lines += [f"{_INDENT}start [shape=circle];", f"{_INDENT}start -> {names[graph.start_at]};"]
    for arrow in _all_arrows(graph):
        case = "" if arrow.case is None else f" [label={_dot(arrow.case)}]"
        lines.append(f"{_INDENT}{names[arrow.source]} -> {names[arrow.to]}{case};")
    return "\n".join([*lines, "}"])


def in_order(graph: DefinitionSnapshot) -> list[str]:
    """Return the nodes in the order in which they can first be reached."""
    order: dict[str, None] = {graph.start_at: None}
    waiting = deque(order)
    while waiting:
        for arrow in _arrows(graph, waiting.popleft()):
            if arrow.to not in order:
                order[arrow.to] = None
                waiting.append(arrow.to)
    return [*order, *(node_id for node_id in graph.nodes if node_id not in order)]


def _grouped(graph: DefinitionSnapshot, mount: str = "") -> Iterator[str]:
    """Yield the nodes in order, but those of a mount together, behind the way into it."""
    for node_id in in_order(graph):
        if graph.nodes[node_id].mount_path == mount:
            yield node_id
            if graph.nodes[node_id].role is MountRole.ENTRY:
                yield from _grouped(graph, node_id)


def _arrows(graph: DefinitionSnapshot, node_id: str) -> list[Arrow]:
    edge = graph.edges.get(node_id)
    match edge:
        case None:
            return []
        case PlainEdge(to):
            return [Arrow(node_id, to, None)]
        case SwitchEdge(_, cases):
            return [Arrow(node_id, to, case) for case, to in sorted(cases.items())]


def _all_arrows(graph: DefinitionSnapshot) -> Iterator[Arrow]:
    for node_id in in_order(graph):
        yield from _arrows(graph, node_id)


def _kind(graph: DefinitionSnapshot, node: SnapshotNode) -> str:
    if node.role is MountRole.ENTRY:
        return f"into {graph.mounts[node.node_id].name}"
    if node.role is MountRole.EXIT:
        return f"out of {graph.mounts[node.mount_path].name}"
    if node.settings_route:
        return f"{node.node_type}, settings route"
    if node.effect_type is None:
        return node.node_type
    return safe_line(f"{node.node_type}, {node.effect_recovery} {node.effect_type}")


def _label(graph: DefinitionSnapshot, node_id: str) -> str:
    return f"{shown_node(node_id)}: {_kind(graph, graph.nodes[node_id])}"


def _depth(node: SnapshotNode) -> int:
    """Return how deep in mounts the code of a node is."""
    return len(node.mount_path.split("/")) if node.mount_path else 0


def _short_names(graph: DefinitionSnapshot) -> dict[str, str]:
    """Return names that any language of drawings takes; those of nodes may be its keywords."""
    return {node_id: f"n{number}" for number, node_id in enumerate(in_order(graph), start=1)}


def _nested(
    graph: DefinitionSnapshot,
    box: Callable[[str, str], str],
    group: Callable[[str, int, str], list[str]],
    end: str,
) -> list[str]:
    """Return the boxes of all nodes, those of each mount in a group inside that of its parent."""
    order = in_order(graph)
    numbers = {mount: number for number, mount in enumerate(sorted(graph.mounts), start=1)}

    def inside(mount: str, indent: str) -> list[str]:
        lines = [
            box(node_id, indent) for node_id in order if graph.nodes[node_id].mount_path == mount
        ]
        for inner in _mounts_in(graph, mount):
            lines += group(inner, numbers[inner], indent)
            lines += inside(inner, indent + _INDENT)
            lines.append(f"{indent}{end}")
        return lines

    return inside("", _INDENT)


def _mounts_in(graph: DefinitionSnapshot, mount: str) -> Sequence[str]:
    return [path for path in sorted(graph.mounts) if path.rpartition("/")[0] == mount]


def _mermaid(text: str) -> str:
    return safe_line(text).replace("#", "#35;").replace('"', "#quot;")


def _dot(text: str) -> str:
    escaped = safe_line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
