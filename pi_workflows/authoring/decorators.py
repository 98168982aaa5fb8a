"""What `@wf.compute()`, `@wf.shell()` and the others give: they turn functions into handles.

A plain and an async function, with or without the context, are all welcome; the overloads let a
type checker find the output type in each case.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar, overload

from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.handles import Node
from pi_workflows.authoring.shell import Command

I = TypeVar("I")  # noqa: E741 - the letter stands for the workflow's input everywhere here
S = TypeVar("S")
A = TypeVar("A")
T = TypeVar("T")

Declare = Callable[[Callable[..., Any]], Node[Any]]


class NodeDecorator(Generic[I, S]):
    """Makes a node whose output is what the function returns."""

    __slots__ = ("_declare",)

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(self, fn: Callable[[Ctx[I, S]], Coroutine[Any, Any, T]]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[Ctx[I, S]], T]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[], Coroutine[Any, Any, T]]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[], T]) -> Node[T]: ...
    def __call__(self, fn: Callable[..., Any]) -> Node[Any]:
        """Declare the function as a node.

        Raises:
            DefinitionError: it is no function, or the workflow is built already.
        """
        return self._declare(fn)


class ShellDecorator(Generic[I, S, T]):
    """Makes a node whose function returns the command; the output is parsed from its result."""

    __slots__ = ("_declare",)

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(self, fn: Callable[[Ctx[I, S]], Command]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[Ctx[I, S]], Coroutine[Any, Any, Command]]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[], Command]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[], Coroutine[Any, Any, Command]]) -> Node[T]: ...
    def __call__(self, fn: Callable[..., Any]) -> Node[Any]:
        """Declare the function as a node.

        Raises:
            DefinitionError: it is no function, or the workflow is built already.
        """
        return self._declare(fn)


class AskingDecorator(Generic[I, S, A, T]):
    """Makes a node whose function returns what is asked or said; the output is the answer."""

    __slots__ = ("_declare",)

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(self, fn: Callable[[Ctx[I, S]], A]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[Ctx[I, S]], Coroutine[Any, Any, A]]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[], A]) -> Node[T]: ...
    @overload
    def __call__(self, fn: Callable[[], Coroutine[Any, Any, A]]) -> Node[T]: ...
    def __call__(self, fn: Callable[..., Any]) -> Node[Any]:
        """Declare the function as a node.

        Raises:
            DefinitionError: it is no function, or the workflow is built already.
        """
        return self._declare(fn)
