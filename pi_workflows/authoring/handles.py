"""Typed handles of nodes: what decorators give back and edges are drawn between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

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
