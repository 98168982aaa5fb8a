"""How a workflow includes others and says by which exits it can be left itself (B §1.3)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, overload

from typing_extensions import TypeVar

from pi_workflows.authoring.callables import caller_location, with_context
from pi_workflows.authoring.codec import ANY_JSON, Codec
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.edges import Edges
from pi_workflows.authoring.errors import Location, Problems
from pi_workflows.authoring.graph import INVALID, Graph
from pi_workflows.authoring.handles import Exit, Mount, Source
from pi_workflows.authoring.mounts import ExitDefinition, Include, Validator
from pi_workflows.authoring.rules import mapper_rule, node_name_rule, validator_rule
from pi_workflows.protocol.definition import exit_of

I = TypeVar("I")  # noqa: E741 - the letter stands for the workflow's input everywhere here
S = TypeVar("S", default=Any)
C = TypeVar("C")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredExit:
    """One call of `wf.exit`, its source unchecked."""

    source: object
    validate: Validator | None
    location: Location


class Composition(Edges, Generic[I, S]):
    """A workflow that is being written, as far as it is made of others.

    Args:
        problems: where findings go.
    """

    def __init__(self, problems: Problems) -> None:
        super().__init__(problems)
        self._owner = object()
        self._includes: dict[str, Include] = {}
        self._exits: dict[str, DeclaredExit] = {}

    @overload
    def include(
        self,
        mount: str,
        child: Definition[C],
        *,
        input: Callable[[Ctx[I, S]], C] | None = None,
        settings: Callable[[Ctx[I, S]], Any] | Callable[[], Any] | None = None,
    ) -> Mount: ...
    @overload
    def include(
        self,
        mount: str,
        child: str | Path,
        *,
        input: Callable[[Ctx[I, S]], C] | None = None,
        settings: Callable[[Ctx[I, S]], Any] | Callable[[], Any] | None = None,
        contract: Definition[C],
    ) -> Mount: ...
    @overload
    def include(
        self,
        mount: str,
        child: str | Path,
        *,
        input: Callable[[Ctx[I, S]], Any] | None = None,
        settings: Callable[[Ctx[I, S]], Any] | Callable[[], Any] | None = None,
    ) -> Mount: ...
    def include(
        self,
        mount: str,
        child: Any,
        *,
        input: Callable[[Ctx[I, S]], Any] | None = None,  # noqa: A002 - the word authors write
        settings: Callable[[Ctx[I, S]], Any] | Callable[[], Any] | None = None,
        contract: Any = None,
    ) -> Mount:
        """Put another workflow into this one, as if its nodes were written here.

        Edges lead to the mount and on from its exits: `wf.edge(fix[FIXED], report)`.

        Args:
            mount: its place: letters, digits, `_` and `-`; no node and no other mount has it.
            child: a built workflow; or a reference: a discovered name, `builtin:<id>`, or a path
                relative to the file of this workflow.
            input: makes the child's input from the context; the child gets none when unsaid.
            settings: makes what the child's settings are at first; the child does when unsaid.
            contract: a built workflow whose contract id, exits and kind of input a referenced
                child has to have; None lets it have any.
        """
        self._refuse_if_built()
        location = caller_location()
        handle = Mount(str(mount), self._owner)

        def refuse(message: str) -> None:
            self._problems.add(INVALID, message, mount=str(mount), location=location)

        for broken in (
            node_name_rule(mount, "a mount"),
            _child_rule(child),
            mapper_rule(input),
            mapper_rule(settings, "settings", "initial settings"),
            _contract_rule(contract),
        ):
            if broken is not None:
                refuse(broken)
        if mount in self._includes:
            refuse(
                f"the name is taken by the mount on line {self._includes[mount].location.line}."
            )
        elif _child_rule(child) is None:
            self._includes[handle.mount_name] = Include(
                child=f"{child.parent}/{child.name}" if isinstance(child, Path) else child,
                mapper=with_context(input) if callable(input) else None,
                settings=with_context(settings) if callable(settings) else None,
                contract=contract if isinstance(contract, Definition) else None,
                location=location,
            )
        return handle

    def exit(
        self, name: str, node: Source[T], *, validate: Callable[[T], T] | None = None
    ) -> Exit[T]:
        """Name a terminal node as a way out, for workflows that include this one.

        Standalone, the workflow ignores its exits.

        Args:
            name: letters, digits, `_` and `-`; unique in this workflow.
            node: a node without an outgoing edge, or a mount's exit without one.
            validate: takes the output and returns it, or raises, which fails the run.
        """
        self._refuse_if_built()
        location = caller_location()

        def refuse(message: str) -> None:
            self._problems.add(INVALID, message, exit_=str(name), location=location)

        for broken in (node_name_rule(name, "an exit"), validator_rule(validate)):
            if broken is not None:
                refuse(broken)
        if name in self._exits:
            refuse(f"the name is taken by the exit on line {self._exits[name].location.line}.")
        else:
            declared = DeclaredExit(source=node, validate=validate, location=location)
            self._exits[str(name)] = declared
        return Exit(str(name), self._owner)

    def _check_mount_names(self, nodes: Mapping[str, object], problems: Problems) -> None:
        for mount in self._includes:
            if mount in nodes:
                message = "a node has this name; a mount needs one of its own."
                location = self._includes[mount].location
                problems.add(INVALID, message, mount=mount, location=location)

    def _checked_exits(
        self, graph: Graph, codecs: Mapping[str, Codec], problems: Problems
    ) -> dict[str, ExitDefinition]:
        """Return the sound exits; all edges are known to the graph by now."""
        exits: dict[str, ExitDefinition] = {}
        used: dict[str, str] = {}
        for name, declared in self._exits.items():
            call = f'wf.exit("{name}", ...)'
            source = graph.source(declared.source, call, declared.location, "EXIT_UNKNOWN_NODE")
            if source is None:
                continue
            problem = None
            if graph.has_edge(source):
                problem = ("EXIT_NOT_TERMINAL", f'"{source}" has an outgoing edge.')
            elif source in used:
                problem = ("EXIT_SHARED_NODE", f'"{source}" serves exit "{used[source]}" already.')
            if problem is not None:
                code, message = problem
                problems.add(
                    code,
                    message,
                    exit_=name,
                    fix="An exit is a terminal node of its own; add one that returns the output.",
                    location=declared.location,
                )
            used.setdefault(source, name)
            exits[name] = ExitDefinition(
                source=source,
                codec=self._exit_codec(source, codecs),
                validate=declared.validate,
                location=declared.location,
            )
        return exits

    def _named_exits(self, sound: Mapping[str, ExitDefinition]) -> dict[str, ExitDefinition]:
        """Return all exits that were declared, those that are not sound without a source."""
        named = {
            name: ExitDefinition(
                source="", codec=ANY_JSON, validate=None, location=declared.location
            )
            for name, declared in self._exits.items()
        }
        return named | dict(sound)

    def _exit_codec(self, source: str, codecs: Mapping[str, Codec]) -> Codec:
        left = exit_of(source)
        if left is None:
            return codecs[source]
        shape = self._includes[left[0]].shape
        return ANY_JSON if shape is None else shape.exits[left[1]].codec


def _child_rule(child: object) -> str | None:
    if isinstance(child, Definition | Path) or (isinstance(child, str) and child.strip()):
        return None
    if isinstance(child, Composition):
        return "its workflow is not built; include what wf.build(...) returned."
    return "it includes a built workflow, or the name or path of one."


def _contract_rule(contract: object) -> str | None:
    if contract is None or isinstance(contract, Definition):
        return None
    return "contract is a built workflow."
