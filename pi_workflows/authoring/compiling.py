"""Compilation: puts the nodes of all included workflows into one graph (B §1.3).

A compiled id is the path of mounts from the root down, `/`, and the node's id in its own
workflow. Compiling runs no function of a node; it runs the files of children that are included by
reference.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pi_workflows.authoring.child_rules import check_child, check_exits_used
from pi_workflows.authoring.codec import ANY_JSON, Codec
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import Definition, NodeDefinition
from pi_workflows.authoring.errors import AuthoringError, DefinitionError, Location, Problems
from pi_workflows.authoring.graph import INVALID
from pi_workflows.authoring.mounts import Entry, ExitDefinition, Include, Leaving, Mounted
from pi_workflows.authoring.timeouts import DEFAULT_TIMEOUT
from pi_workflows.protocol.definition import (
    NODE_ID_CHARS_MAX,
    Edge,
    PlainEdge,
    SwitchEdge,
    exit_node_id,
    exit_of,
)
from pi_workflows.protocol.states import NodeType

C = TypeVar("C")


class Children(Protocol):
    """Finds and loads the workflows that are included by reference."""

    def locate(self, reference: str, including: Path, mount_path: str) -> Path:
        """Return the file of a child.

        Args:
            including: the file that includes it; a path is relative to its folder.
            mount_path: where it is included, from the root down.

        Raises:
            SourceUnknown: there is none.
        """
        ...

    def load(self, path: Path) -> Definition[Any]:
        """Run the file and return its workflow, not compiled.

        Raises:
            AuthoringError: it is no workflow, or a wrong one.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Link:
    """One workflow on the way from the root to a child.

    Attributes:
        path: of its mount; empty for the root.
        file: the file that was run for it; None for one that its parent has imported.
    """

    path: str
    name: str
    file: Path | None


def compile_definition(
    root: Definition[C], children: Children, file: Path | None = None
) -> Definition[C]:
    """Return the workflow with everything it includes in one graph; itself if it includes nothing.

    Args:
        children: resolves references.
        file: where the root was loaded from; what the root says of itself when None.

    Raises:
        DefinitionError: with every problem found in any of the workflows.
    """
    compiler = _Compiler(children)
    file = file or root.source
    compiled = compiler.flatten(root, file, (_Link("", root.name, file.resolve()),))
    compiler.check_ids(compiled)
    compiler.problems.fail_if_any()
    return compiled


def with_children(error: DefinitionError, children: Children) -> DefinitionError:
    """Return a refusal with what is wrong in the included workflows as well.

    Args:
        error: of `build`; as it is when nothing is known of what the workflow includes.
        children: resolves references.
    """
    root = error.unfinished
    if not isinstance(root, Definition):
        return error
    compiler = _Compiler(children)
    compiler.problems.adopt(error.problems)
    compiler.flatten(root, root.source, (_Link("", root.name, root.source.resolve()),))
    told = DefinitionError(compiler.problems.found)
    told.detail = error.detail
    return told


class _Compiler:
    """One compilation; a child that several mounts refer to is loaded once.

    Attributes:
        problems: of all workflows.
    """

    def __init__(self, children: Children) -> None:
        self._children = children
        self._loaded: dict[Path, Definition[Any] | None] = {}
        self._broken: set[Path | None] = set()
        self.problems = Problems(None)

    def flatten(
        self, definition: Definition[C], file: Path, chain: tuple[_Link, ...]
    ) -> Definition[C]:
        """Return the workflow compiled as far as that is possible; problems are noted."""
        if not definition.includes:
            return definition
        problems = Problems(definition.name)
        graph = _Flat(definition)
        for mount, include in definition.includes.items():
            found = self._child(mount, include, file, chain, problems)
            if found is None:
                continue
            if found.file in self._broken:
                check_exits_used(mount, include, definition, found.child, problems)
                continue
            run = None if found.file is None else found.file.resolve()
            link = _Link(_below(chain, mount), found.child.name, run)
            child = self.flatten(found.child, found.source, (*chain, link))
            check_child(mount, include, child, problems)
            check_exits_used(mount, include, definition, child, problems)
            graph.place(mount, include, Mounted(child, found.source, include.contract))
        self.problems.adopt(problems.found)
        return graph.definition()

    def check_ids(self, compiled: Definition[Any]) -> None:
        """Note the nodes that lie too deep for their ids to be stored."""
        problems = Problems(compiled.name)
        for node in compiled.nodes.values():
            if len(node.node_id) > NODE_ID_CHARS_MAX:
                message = (
                    f"its compiled id has {len(node.node_id)} characters, and at most "
                    f"{NODE_ID_CHARS_MAX} are allowed."
                )
                fix = "Give the mounts around it shorter names, or include less deeply."
                location = node.location
                problems.add(INVALID, message, node=node.local_id, fix=fix, location=location)
        self.problems.adopt(problems.found)

    def _child(
        self,
        mount: str,
        include: Include,
        file: Path,
        chain: tuple[_Link, ...],
        problems: Problems,
    ) -> "_Found | None":
        if isinstance(include.child, Definition):
            return _Found(include.child, include.child.source.absolute(), None)
        try:
            path = self._children.locate(include.child, file, _below(chain, mount))
        except AuthoringError as error:
            problems.add(
                "INCLUDE_UNRESOLVED", error.message, mount=mount, location=include.location
            )
            return None
        if any(link.file == path.resolve() for link in chain):
            problems.add(
                "INCLUDE_CYCLE",
                f"it includes itself: {_shown(chain, path)}.",
                mount=mount,
                fix="Take one of these includes out.",
                location=include.location,
            )
            return None
        child = self._load(path, mount, include, chain, problems)
        return None if child is None else _Found(child, path, path)

    def _load(
        self,
        path: Path,
        mount: str,
        include: Include,
        chain: tuple[_Link, ...],
        problems: Problems,
    ) -> Definition[Any] | None:
        key = path.resolve()
        if key not in self._loaded:
            self._loaded[key] = None
            try:
                self._loaded[key] = self._children.load(path)
            except DefinitionError as error:
                problems.adopt(error.problems)
                if isinstance(error.unfinished, Definition):
                    unfinished = self._loaded[key] = error.unfinished
                    self._broken.add(path)
                    link = _Link(_below(chain, mount), unfinished.name, key)
                    self.flatten(unfinished, path, (*chain, link))
            except AuthoringError as error:
                message = f"{path.name} does not load: {error.message}"
                problems.add("INCLUDE_UNRESOLVED", message, mount=mount, location=include.location)
        return self._loaded[key]


@dataclass(frozen=True, slots=True)
class _Found:
    """A child.

    Attributes:
        source: the file that holds it.
        file: the file that was run for it; None for one that its parent has imported.
    """

    child: Definition[Any]
    source: Path
    file: Path | None


def _below(chain: tuple[_Link, ...], mount: str) -> str:
    """Return the path of a mount of the last workflow in a chain."""
    around = chain[-1].path
    return f"{around}/{mount}" if around else mount


def _shown(chain: tuple[_Link, ...], path: Path) -> str:
    """Return a cycle from the workflow that it comes back to."""
    names = [f'"{link.name}"' for link in chain]
    first = next(i for i, link in enumerate(chain) if link.file == path.resolve())
    return " -> ".join([*names[first:], names[first]])


class _Flat:
    """One workflow's graph while its children are put into it."""

    def __init__(self, definition: Definition[C]) -> None:
        self._definition = definition
        self._nodes = dict(definition.nodes)
        self._edges = dict(definition.edges)
        self._mounts: dict[str, Mounted] = {}

    def place(self, mount: str, include: Include, mounted: Mounted) -> None:
        """Put a compiled child at a mount."""
        child = mounted.child
        self._mounts[mount] = mounted
        self._mounts |= {f"{mount}/{path}": inner for path, inner in child.mounts.items()}
        self._nodes[mount] = _entry(mount, include)
        self._edges[mount] = PlainEdge(f"{mount}/{child.start_at}")
        for node_id, node in child.nodes.items():
            self._nodes[f"{mount}/{node_id}"] = _under(mount, node)
        for source, edge in child.edges.items():
            self._edges[f"{mount}/{source}"] = _moved(mount, edge)
        for name, exit_ in child.exits.items():
            leaving = exit_node_id(mount, name)
            self._nodes[leaving] = _leaving(mount, name, exit_)
            self._edges[f"{mount}/{exit_.source}"] = PlainEdge(leaving)

    def definition(self) -> Definition[Any]:
        """Return the workflow as it is now."""
        return replace(
            self._definition,
            nodes=self._nodes,
            edges=self._edges,
            includes={},
            mounts=self._mounts,
            exits={name: self._exit(exit_) for name, exit_ in self._definition.exits.items()},
        )

    def _exit(self, exit_: ExitDefinition) -> ExitDefinition:
        """Return an exit with the type of what it carries, which a reference may have hidden."""
        left = exit_of(exit_.source)
        mounted = None if left is None else self._mounts.get(left[0])
        if left is None or mounted is None or left[1] not in mounted.child.exits:
            return exit_
        return replace(exit_, codec=mounted.child.exits[left[1]].codec)


def _entry(mount: str, include: Include) -> NodeDefinition:
    fn = include.mapper or _no_input
    crossing = Entry(mount, include.settings)
    return _transition(mount, fn, ANY_JSON, include.location, crossing)


def _leaving(mount: str, name: str, exit_: ExitDefinition) -> NodeDefinition:
    crossing = Leaving(mount, name, exit_.validate)
    node_id = exit_node_id(mount, name)
    node = _transition(node_id, _no_input, exit_.codec, exit_.location, crossing)
    return replace(node, mount_path=mount)


def _transition(
    node_id: str,
    fn: Callable[..., Any],
    codec: Codec,
    location: Location,
    crossing: Entry | Leaving,
) -> NodeDefinition:
    """Return a node that the engine itself carries out, at the border of a child."""
    return NodeDefinition(
        node_id=node_id,
        node_type=NodeType.COMPUTE,
        fn=fn,
        is_async=False,
        codec=codec,
        timeout=DEFAULT_TIMEOUT,
        status_detail=None,
        effect=None,
        look=None,
        request=None,
        shell=None,
        retry=None,
        location=location,
        crossing=crossing,
    )


def _no_input(_context: Ctx[Any]) -> None:
    """Give a child no input."""


def _under(mount: str, node: NodeDefinition) -> NodeDefinition:
    """Return a node of a child at its place below a mount."""
    crossing = node.crossing
    return replace(
        node,
        node_id=f"{mount}/{node.node_id}",
        mount_path=f"{mount}/{node.mount_path}" if node.mount_path else mount,
        crossing=None
        if crossing is None
        else replace(crossing, mount=f"{mount}/{crossing.mount}"),
    )


def _moved(mount: str, edge: Edge) -> Edge:
    if isinstance(edge, PlainEdge):
        return PlainEdge(f"{mount}/{edge.to}")
    return SwitchEdge(edge.on, {case: f"{mount}/{to}" for case, to in edge.cases.items()})
