"""What can be learned of an author's function without running it."""

import dis
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final

from pi_workflows.authoring.errors import Location

_OWN_PACKAGE: Final = "pi_workflows.authoring"


def takes(fn: Callable[..., Any], count: int) -> bool:
    """Say whether `fn` can be called with this many positional arguments and nothing else."""
    try:
        inspect.signature(fn).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # Some builtins have no signature to read.
        return True
    return True


def with_context(fn: Callable[..., Any]) -> Callable[[Any], Any] | None:
    """Return `fn` as a function of the context, which it may ignore; None if it needs more."""
    if takes(fn, 1):
        return fn
    if takes(fn, 0):
        return lambda _context: fn()
    return None


def is_async(fn: object) -> bool:
    """Say whether calling `fn` gives a coroutine."""
    called = getattr(fn, "__call__", None)  # noqa: B004 - the method itself is looked at
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(called)


def yields(fn: object) -> bool:
    """Say whether `fn` is a generator function, whose call runs nothing."""
    return inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)


def gives_nothing(fn: Callable[..., Any]) -> bool:
    """Say whether a Python function returns None wherever it returns; False if that is unknown."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None or yields(fn):
        return False
    returned = []
    before: dis.Instruction | None = None
    for step in dis.get_instructions(code):
        if step.opname == "RETURN_VALUE":
            constant = before is not None and before.opname == "LOAD_CONST"
            returned.append(constant and before is not None and before.argval is None)
        elif step.opname == "RETURN_CONST":  # From Python 3.12 on.
            returned.append(step.argval is None)
        before = step
    return bool(returned) and all(returned)


def return_type(fn: Callable[..., Any], local_names: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the declared return type as a type form; `Any` when nothing is declared.

    Args:
        local_names: names beside the function's globals that a text annotation may use.

    Raises:
        NameError: a text annotation uses an unknown name.
        SyntaxError: a text annotation is no expression.
        TypeError: an annotation is no type.
    """
    if isinstance(fn, type):
        return fn
    function = inspect.unwrap(fn)
    function = getattr(function, "__func__", function)
    annotations = getattr(function, "__annotations__", {})
    if "return" not in annotations:
        return Any

    def carrier() -> None:
        """Carry one annotation, because others of the function may not resolve."""

    carrier.__annotations__ = {"return": annotations["return"]}
    known = getattr(function, "__globals__", {})
    hints = typing.get_type_hints(carrier, known, dict(local_names), include_extras=True)
    return hints["return"]


def location_of(fn: object) -> Location | None:
    """Return where a function begins, its decorators included; None for other callables."""
    code = getattr(inspect.unwrap(fn) if callable(fn) else fn, "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno)


def caller_frame() -> FrameType:
    """Return the nearest frame outside this package: the author's line."""
    frame = sys._getframe(1)  # noqa: SLF001 - the one way to the caller's line
    while frame.f_back is not None and _is_own(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame


def caller_location() -> Location:
    """Return the author's line that called into this package."""
    frame = caller_frame()
    return Location(frame.f_code.co_filename, frame.f_lineno)


def _is_own(module_name: object) -> bool:
    return f"{module_name}.".startswith(f"{_OWN_PACKAGE}.")
