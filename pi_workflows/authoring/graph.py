"""Checks the edges between declared nodes and turns them into plain data (B §1.2, §1.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pi_workflows.authoring.choices import (
    choices_label,
    declared_choices,
    route_path,
)
from pi_workflows.authoring.errors import Location, Problems
from pi_workflows.authoring.handles import Mount, MountExit, Node
from pi_workflows.authoring.mounts import Include
from pi_workflows.authoring.rules import outcome_cases_rule, switch_path_rule
from pi_workflows.protocol.canonical import CanonicalError
from pi_workflows.protocol.definition import (
    Edge,
    PlainEdge,
    SwitchEdge,
    case_text,
    exit_node_id,
    exit_of,
)
from pi_workflows.protocol.errors import ErrorCode

INVALID = ErrorCode.DEFINITION_INVALID

ROUTING_CALLS: Final = {"wf.route": ", ", "wf.control_loop": ", ..., routes="}
"""Calls that read the route of their node, and what stands between it and the cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEdge:
    """One call of `wf.edge`, `wf.switch`, `wf.route` or `wf.on_outcome`, unchecked.

    Attributes:
        call: the call as an author writes it, for the error text.
        to: target of a plain edge; None for a switch.
        on: path of a switch; None for a plain edge, and where the node's output says it.
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
        includes: by mount name.
        problems: where findings go.
    """

    def __init__(
        self,
        owner: object,
        outputs: Mapping[str, object],
        includes: Mapping[str, Include],
        problems: Problems,
    ) -> None:
        self._owner = owner
        self._outputs = outputs
        self._includes = includes
        self._problems = problems
        self._edges: dict[str, Edge] = {}
        self._declared_at: dict[str, Location] = {}

    @property
    def edges(self) -> Mapping[str, Edge]:
        """The sound edges so far, by source."""
        return self._edges

    def add(self, declared: DeclaredEdge) -> None:
        """Check one edge and keep it if it is sound."""
        source = self.source(
            declared.source, declared.call, declared.location, "EDGE_UNKNOWN_FROM"
        )
        if source is None:
            return
        if source in self._declared_at:
            self._note(
                "EDGE_DUPLICATE",
                source,
                f"it already has an edge, from line {self._declared_at[source].line}.",
                declared.location,
                "A node has one edge; use wf.switch or wf.route to choose between targets.",
            )
            return
        self._declared_at[source] = declared.location
        if declared.cases is None:
            target = self._target(declared.to, declared, source)
            if target is not None:
                self._edges[source] = PlainEdge(target)
        else:
            self._add_switch(source, declared)

    def has_edge(self, source: str) -> bool:
        """Say whether an edge from a node was drawn, sound or not."""
        return source in self._declared_at

    def check_chosen(self, node_id: str, location: Location) -> None:
        """Note that nothing follows what is chosen in a node."""
        path, edge = route_path(self._output(node_id)), self._edges.get(node_id)
        routed = isinstance(edge, SwitchEdge) and edge.on == path
        if path is None or routed or (self.has_edge(node_id) and edge is None):
            return  # What is wrong with it was noted where it was declared or drawn.
        message = "nothing follows its choice."
        fix = f"Add wf.route({node_id}, {{...}}) with a case for each choice."
        self._note("EDGE_CASES", node_id, message, location, fix)

    def start(self, node: object, location: Location) -> str | None:
        """Return the id of the start node, or note why there is none."""
        if not isinstance(node, Node | Mount):
            message = f"start is {_kind(node)}; pass a node's handle: wf.build(start=node)."
            self._problems.add(INVALID, message, location=location)
            return None
        name = _target_name(node)
        if node.owner is not self._owner:
            message = f'start node "{name}" belongs to another workflow.'
            fix = "Start at a node of this one."
            self._problems.add("START_UNKNOWN", message, fix=fix, location=location)
            return None
        return name

    def check_reachable(self, start_at: str, location: Location) -> None:
        """Note all nodes and mounts that no path leads to; a mount leads to all its exits."""
        reached = {start_at}
        frontier = [start_at]
        while frontier:
            for target in self._followers(frontier.pop()):
                if target not in reached:
                    reached.add(target)
                    frontier.append(target)
        lost = [name for name in (*self._outputs, *self._includes) if name not in reached]
        if lost:
            names = ", ".join(f'"{name}"' for name in lost)
            message = f'no path from "{start_at}" to {names}.'
            fix = f"Draw an edge to {_them(lost)}, or remove {_them(lost)}."
            self._problems.add("NODE_UNREACHABLE", message, fix=fix, location=location)

    def _followers(self, node_id: str) -> list[str]:
        if node_id in self._includes:
            return [source for source in self._edges if _mount_of(source) == node_id]
        return targets(self._edges.get(node_id))

    def source(self, node: object, call: str, location: Location, code: str) -> str | None:
        """Return the id of what a node's or a mount exit's handle means here, or note why not.

        Args:
            call: the call that was given the handle, as an author writes it.
            code: of a handle that is of another workflow.
        """
        if isinstance(node, MountExit):
            return self._mount_exit(node, call, location, code)
        fix = "An edge leaves a mount by one of its exits: mount[EXIT]."
        if not isinstance(node, Node):
            hint = f" {fix}" if isinstance(node, Mount) else ""
            message = f"the source of {call} is {_kind(node)}; pass a node's handle.{hint}"
            self._problems.add(INVALID, message, location=location)
            return None
        if node.owner is not self._owner:
            self._foreign("source", node.node_id, call, location, code)
            return None
        return node.node_id

    def _mount_exit(
        self, leaving: MountExit[Any], call: str, location: Location, code: str
    ) -> str | None:
        mount, name = leaving.mount.mount_name, leaving.exit_name
        if leaving.mount.owner is not self._owner:
            self._foreign("source", mount, call, location, code)
            return None
        problem = exit_problem(self._includes.get(mount), leaving)
        if problem is not None:
            self._problems.add(code, problem, mount=mount, location=location)
            return None
        return exit_node_id(mount, name)

    def _target(self, node: object, declared: DeclaredEdge, source: str) -> str | None:
        """Return the id behind the handle of a target, or note what it is instead."""
        if not isinstance(node, Node | Mount):
            message = f"the target of {declared.call} is {_kind(node)}; pass a node's handle."
            if isinstance(node, MountExit):
                mount = node.mount.mount_name
                message = (
                    f'the target of {declared.call} is an exit of mount "{mount}"; an edge enters '
                    "a mount by its own handle."
                )
            self._invalid(source, declared, message)
            return None
        if node.owner is not self._owner:
            name, call = _target_name(node), declared.call
            self._foreign("target", name, call, declared.location, "EDGE_UNKNOWN_TO", source)
            return None
        return _target_name(node)

    def _foreign(  # noqa: PLR0917 - all of one error
        self,
        role: str,
        name: str,
        call: str,
        location: Location,
        code: str,
        source: str | None = None,
    ) -> None:
        message = f'the {role} "{name}" of {call} is of another workflow.'
        fix = "Draw edges between nodes of one workflow."
        if code == "EXIT_UNKNOWN_NODE":
            fix = "An exit is of a node of its own workflow."
        self._note(code, source, message, location, fix)

    def _add_switch(self, source: str, declared: DeclaredEdge) -> None:
        given = declared.on
        if declared.call in ROUTING_CALLS:
            given = self._route_path(source, declared)
            if given is None:
                return
        broken = switch_path_rule(given)
        if broken is not None:
            self._invalid(source, declared, broken)
            return
        on = str(given)
        cases = self._cases(source, declared)
        broken = outcome_cases_rule(on, cases)
        if broken is not None:
            self._invalid(source, declared, broken)
        self._check_choices(source, on, cases, declared)
        self._edges[source] = SwitchEdge(
            on, {text: target for text, target in cases.items() if target is not None}
        )

    def _route_path(self, source: str, declared: DeclaredEdge) -> str | None:
        """Return where the source decides, or note that it does not."""
        path = route_path(self._output(source))
        if exit_of(source) is None:
            if path is None:
                message = (
                    f"it returns no Route; annotate it: def {source}(...) -> Route[SomeEnum]."
                )
                self._invalid(source, declared, message)
            return path
        if path is None:
            message = "it is not known to carry a Route; use wf.switch instead."
            self._invalid(source, declared, message)
            return None
        return path.replace("$", "$.output", 1)

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
            cases[text] = self._target(target, declared, source)
        return cases

    def _check_choices(
        self, source: str, on: str, cases: Mapping[str, object], declared: DeclaredEdge
    ) -> None:
        """Compare the cases with the enum or Literal that the output declares at the path."""
        output, within = self._declared_at_path(source, on)
        choices = declared_choices(output, within)
        if choices is None or not cases:
            return
        before = ROUTING_CALLS.get(declared.call, f', "{on}", ')
        call = f"{declared.call}({_spelt(source)}{before}{{...}})"
        missing = [label for text, label in choices.items() if text not in cases]
        extra = sorted(text for text in cases if text not in choices)
        if missing:
            self._note(
                "EDGE_CASES",
                source,
                f"no case for {', '.join(missing)}.",
                declared.location,
                f"Add {_them(missing)} to {call}.",
            )
        if extra:
            self._note(
                "EDGE_CASES",
                source,
                f'case "{", ".join(extra)}" is none of {choices_label(output, within)}.',
                declared.location,
                f"Remove {_them(extra)} from {call}.",
            )

    def _output(self, source: str) -> object:
        """Return the declared type of what a node gives, or of what leaves a mount there."""
        left = exit_of(source)
        if left is None:
            return self._outputs.get(source)
        shape = self._includes[left[0]].shape
        return Any if shape is None else shape.exits[left[1]].codec.declared

    def _declared_at_path(self, source: str, on: str) -> tuple[object, str]:
        """Return the type and the path in it that a switch reads.

        The output of a transition out of a mount is `{exit, output}`.
        """
        root, *names = on.split(".")
        if exit_of(source) is None or root == "$result":
            return self._output(source), on
        if names[:1] != ["output"]:
            return Any, on
        return self._output(source), ".".join([root, *names[1:]])

    def _invalid(self, source: str, declared: DeclaredEdge, message: str) -> None:
        self._note(INVALID, source, message, declared.location)

    def _note(
        self,
        code: str,
        source: str | None,
        message: str,
        location: Location,
        fix: str | None = None,
    ) -> None:
        left = None if source is None else exit_of(source)
        mount, exit_ = (None, None) if left is None else left
        node = source if left is None else None
        self._problems.add(
            code, message, node=node, mount=mount, exit_=exit_, fix=fix, location=location
        )


def exit_problem(include: Include | None, leaving: MountExit[Any]) -> str | None:
    """Return why an included workflow cannot be left so; None if it can, or nobody knows yet."""
    shape = None if include is None else include.shape
    if shape is None:
        return None
    if leaving.exit_owner is not None and leaving.exit_owner is not shape.owner:
        return f'exit "{leaving.exit_name}" belongs to another workflow than "{shape.name}".'
    return unknown_exit(leaving.exit_name, shape.name, shape.exits)


def unknown_exit(name: str, workflow: str, exits: Mapping[str, object]) -> str | None:
    """Return that a workflow has no such exit, or None if it has."""
    if name in exits:
        return None
    known = ", ".join(exits) if exits else "none"
    return f'workflow "{workflow}" has no exit "{name}"; it has: {known}.'


def targets(edge: Edge | None) -> list[str]:
    """Return where an edge may lead, in order of its cases."""
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


def _target_name(node: Node[Any] | Mount) -> str:
    return node.mount_name if isinstance(node, Mount) else node.node_id


def _mount_of(source: str) -> str | None:
    left = exit_of(source)
    return None if left is None else left[0]


def _them(named: Sequence[str]) -> str:
    return "it" if len(named) == 1 else "them"


def _spelt(source: str) -> str:
    """Return a source as an author writes it."""
    left = exit_of(source)
    return source if left is None else f"{left[0]}[{left[1]}]"


def _kind(value: object) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"
