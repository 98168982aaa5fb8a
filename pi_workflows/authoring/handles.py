"""What decorators and declarations give back, and edges are drawn between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Node(Generic[T_co]):
    """A node of one workflow; the type parameter is the type of its output.

    Attributes:
        node_id: the function's name.
        fn: the function as it was written, for unit tests.
        owner: identity of the workflow that declared it.
    """

    node_id: str
    fn: Callable[..., Any]
    owner: object = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Exit(Generic[T_co]):
    """A way out of a workflow that others include; the parameter is the type of what it carries.

    Attributes:
        exit_name: unique in its workflow.
        owner: identity of the workflow that declared it.
    """

    exit_name: str
    owner: object = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class MountExit(Generic[T_co]):
    """An exit of an included workflow, as its parent sees it: a source of edges.

    Attributes:
        exit_owner: identity of the workflow that declared the exit; None for one known by name.
    """

    mount: "Mount"
    exit_name: str
    exit_owner: object = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Mount:
    """A place where a workflow includes another one: edges lead to it, and on from its exits.

    Attributes:
        mount_name: unique among the mounts and nodes of its workflow.
        owner: identity of the workflow that includes.
    """

    mount_name: str
    owner: object = field(repr=False)

    @overload
    def __getitem__(self, exit_: Exit[T]) -> MountExit[T]: ...
    @overload
    def __getitem__(self, exit_: str) -> MountExit[Any]: ...
    def __getitem__(self, exit_: Exit[Any] | str) -> MountExit[Any]:
        """Return an exit of the included workflow; `build()` finds out whether it has it.

        Args:
            exit_: what the child's `wf.exit(...)` gave, or its name where the child is included
                by reference.
        """
        if isinstance(exit_, Exit):
            return MountExit(self, exit_.exit_name, exit_.owner)
        return MountExit(self, exit_, None)


Source: TypeAlias = Node[T] | MountExit[T]
"""Where an edge begins."""

Target: TypeAlias = Node[Any] | Mount
"""Where an edge leads."""
