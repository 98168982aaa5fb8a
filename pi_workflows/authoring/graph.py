"""Checks the edges between declared nodes and turns them into plain data (B §1.2, §1.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pi_workflows.authoring.choices import (
    ROUTE_PATH,
    choices_label,
    declared_choices,
    is_route,
)
from pi_workflows.authoring.errors import Location, Problems
from pi_workflows.authoring.handles import Node
from pi_workflows.authoring.rules import outcome_cases_rule, switch_path_rule
from pi_workflows.protocol.canonical import CanonicalError
from pi_workflows.protocol.definition import Edge, PlainEdge, SwitchEdge, case_text
from pi_workflows.protocol.errors import ErrorCode

INVALID = ErrorCode.DEFINITION_INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEdge:
    """One call of `wf.edge`, `wf.switch`, `wf.route` or `wf.on_outcome`, unchecked.

    Attributes:
        call: the call as an author writes it, for the error text.
        to: target of a plain edge; None for a switch.
        on: path of a switch; None for a plain edge.
        cases: targets of a switch by value; None for a plain edge.
    """

    call: str
    source: object
    location: Location
    to: object = None
    on: object = None
    cases: object = None


class Graph:
    """The edges of one workflow while they are checked.

    Args:
        owner: identity of the workflow.
        outputs: declared output type by node id.
        problems: where findings go.
    """

    def __init__(self, owner: object, outputs: Mapping[str, object], problems: Problems) -> None:
        self._owner = owner
        self._outputs = outputs
        self._problems = problems
        self._edges: dict[str, Edge] = {}
        self._declared_at: dict[str, Location] = {}

    @property
    def edges(self) -> Mapping[str, Edge]:
        """The sound edges so far, by source."""
        return self._edges

    def add(self, declared: DeclaredEdge) -> None:
        """Check one edge and keep it if it is sound."""
        source = self._node(declared.source, declared, "EDGE_UNKNOWN_FROM")
        if source is None:
            return
        if source in self._declared_at:
            self._problems.add(
                "EDGE_DUPLICATE",
                f"it already has an edge, from line {self._declared_at[source].line}.",
                node=source,
                fix="A node has one edge; use wf.switch or wf.route to choose between targets.",
                location=declared.location,
            )
            return
        self._declared_at[source] = declared.location
        if declared.cases is None:
            target = self._node(declared.to, declared, "EDGE_UNKNOWN_TO", source)
            if target is not None:
                self._edges[source] = PlainEdge(target)
        else:
            self._add_switch(source, declared)

    def start(self, node: object, location: Location) -> str | None:
        """Return the id of the start node, or note why there is none."""
        if not isinstance(node, Node):
            message = f"start is {_kind(node)}; pass a node's handle: wf.build(start=node)."
            self._problems.add(INVALID, message, location=location)
            return None
        if node.owner is not self._owner:
            message = f'start node "{node.node_id}" belongs to another workflow.'
            self._problems.add("START_UNKNOWN", message, location=location)
            return None
        return node.node_id

    def check_reachable(self, start_at: str, location: Location) -> None:
        """Note all nodes that no path leads to."""
        reached = {start_at}
        frontier = [start_at]
        while frontier:
            for target in _targets(self._edges.get(frontier.pop())):
                if target not in reached:
                    reached.add(target)
                    frontier.append(target)
        lost = ", ".join(f'"{name}"' for name in self._outputs if name not in reached)
        if lost:
            message = f'no path from "{start_at}" to {lost}.'
            self._problems.add("NODE_UNREACHABLE", message, location=location)

    def _node(
        self, node: object, declared: DeclaredEdge, code: str, source: str | None = None
    ) -> str | None:
        """Return the id behind a handle of this workflow, or note what it is instead.

        Args:
            source: the edge's sound source, when `node` is a target of it.
        """
        role = "source" if source is None else "target"
        if not isinstance(node, Node):
            message = f"the {role} of {declared.call} is {_kind(node)}; pass a node's handle."
            self._problems.add(INVALID, message, node=source, location=declared.location)
            return None
        if node.owner is not self._owner:
            message = f'the {role} "{node.node_id}" of {declared.call} is of another workflow.'
            fix = "Draw edges between nodes of one workflow."
            self._problems.add(code, message, node=source, fix=fix, location=declared.location)
            return None
        return node.node_id

    def _add_switch(self, source: str, declared: DeclaredEdge) -> None:
        if declared.call == "wf.route" and not is_route(self._outputs.get(source)):
            message = f"it returns no Route; annotate it: def {source}(...) -> Route[SomeEnum]."
            self._invalid(source, declared, message)
            return
        broken = switch_path_rule(declared.on)
        if broken is not None:
            self._invalid(source, declared, broken)
            return
        on = str(declared.on)
        cases = self._cases(source, declared)
        broken = outcome_cases_rule(on, cases)
        if broken is not None:
            self._invalid(source, declared, broken)
        self._check_choices(source, on, cases, declared)
        self._edges[source] = SwitchEdge(
            on, {text: target for text, target in cases.items() if target is not None}
        )

    def _cases(self, source: str, declared: DeclaredEdge) -> dict[str, str | None]:
        """Return the target by case text; None stands for a target that was refused."""
        cases: dict[str, str | None] = {}
        if not isinstance(declared.cases, Mapping) or not declared.cases:
            self._invalid(source, declared, f"{declared.call} has no cases.")
            return cases
        for key, target in declared.cases.items():
            text = _key_text(key)
            if text is None:
                message = "a case is text, a boolean or a number of at most 2^53-1."
                self._invalid(source, declared, message)
                continue
            if text in cases:
                self._invalid(source, declared, f'two cases read "{text}".')
            cases[text] = self._node(target, declared, "EDGE_UNKNOWN_TO", source)
        return cases

    def _check_choices(
        self, source: str, on: str, cases: Mapping[str, object], declared: DeclaredEdge
    ) -> None:
        """Compare the cases with the enum or Literal that the output declares at the path."""
        output = self._outputs.get(source)
        choices = declared_choices(output, on)
        if choices is None or not cases:
            return
        path = "" if on == ROUTE_PATH and declared.call == "wf.route" else f', "{on}"'
        call = f"{declared.call}({source}{path}, {{...}})"
        missing = [label for text, label in choices.items() if text not in cases]
        extra = sorted(text for text in cases if text not in choices)
        if missing:
            self._problems.add(
                "EDGE_CASES",
                f"no case for {', '.join(missing)}.",
                node=source,
                fix=f"Add {'it' if len(missing) == 1 else 'them'} to {call}.",
                location=declared.location,
            )
        if extra:
            self._problems.add(
                "EDGE_CASES",
                f'case "{", ".join(extra)}" is none of {choices_label(output, on)}.',
                node=source,
                fix=f"Remove it from {call}.",
                location=declared.location,
            )

    def _invalid(self, source: str, declared: DeclaredEdge, message: str) -> None:
        self._problems.add(INVALID, message, node=source, location=declared.location)


def _targets(edge: Edge | None) -> list[str]:
    if edge is None:
        return []
    return [edge.to] if isinstance(edge, PlainEdge) else list(edge.cases.values())


def _key_text(key: object) -> str | None:
    value = key.value if isinstance(key, Enum) else key
    if not isinstance(value, str | int | float):
        return None
    try:
        return case_text(value)
    except CanonicalError:
        return None


def _kind(value: object) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"
