"""Whether functions take the context that their workflow gives them, as far as can be seen."""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pi_workflows.authoring.codec import type_label
from pi_workflows.authoring.context import Ctx

UNDECLARED: Final = NoneType
"""Stands for the input or the settings of a workflow that declares none."""

_UNION: Final = (Union, UnionType)


def wrong_contexts(
    fn: object, input_type: object, settings_type: object, local_names: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what is wrong with the context that a function is annotated to take.

    A type checker says the same, and more. What cannot be read of an annotation is let pass.

    Args:
        input_type: of the workflow, or `UNDECLARED`.
        settings_type: as `input_type`.
        local_names: names beside the function's globals that a text annotation may use.
    """
    named = get_args(_context_of(fn, local_names))
    for what, wanted, given in zip(
        ("input", "settings"), (input_type, settings_type), named, strict=False
    ):
        if not _fits(wanted, given):
            has = "none" if wanted is UNDECLARED else type_label(wanted)
            yield (
                f"its context has {what} of type {type_label(given)}, "
                f"and the workflow declares {has}; "
                f"Workflow({what}=...) and Ctx[...] have to agree."
            )


def _context_of(fn: object, local_names: Mapping[str, Any]) -> object:
    """Return the annotation of the parameter that gets the context; None when it is no `Ctx`."""
    if not callable(fn):
        return None
    try:
        first = next(iter(inspect.signature(fn).parameters.values()), None)
        if first is None or first.annotation is inspect.Parameter.empty:
            return None
        found = _resolved(fn, first.annotation, local_names)
    except (NameError, SyntaxError, TypeError, ValueError, AttributeError):
        return None
    return found if get_origin(found) is Ctx else None


def _resolved(
    fn: Callable[..., Any], annotation: object, local_names: Mapping[str, Any]
) -> object:
    def carrier() -> None:
        """Carry one annotation, because others of the function may not resolve."""

    carrier.__annotations__ = {"ctx": annotation}
    function = inspect.unwrap(fn)
    known = getattr(getattr(function, "__func__", function), "__globals__", {})
    return typing.get_type_hints(carrier, known, dict(local_names))["ctx"]


def _fits(wanted: object, given: object) -> bool:
    """Say whether a value of type `wanted` may be taken for a `given`; True when in doubt."""
    wanted, given = _plain(wanted), _plain(given)
    if Any in (wanted, given) or given == wanted or isinstance(given, TypeVar):
        return True
    if get_origin(wanted) in _UNION:
        return all(_fits(member, given) for member in get_args(wanted))
    if get_origin(given) in _UNION:
        return any(_fits(wanted, member) for member in get_args(given))
    made, taken = get_origin(wanted) or wanted, get_origin(given) or given
    if not isinstance(made, type) or not isinstance(taken, type):
        return True
    return _is_kind_of(made, taken) and (made is not taken or _fit_inside(wanted, given))


def _fit_inside(wanted: object, given: object) -> bool:
    """Compare the parameters of two forms of one generic type."""
    ours, theirs = get_args(wanted), get_args(given)
    if len(ours) != len(theirs):
        return True
    return all(_fits(one, other) for one, other in zip(ours, theirs, strict=True))


def _plain(declared: object) -> object:
    if declared is None:
        return NoneType
    return _plain(get_args(declared)[0]) if get_origin(declared) is Annotated else declared


def _is_kind_of(made: type, taken: type) -> bool:
    if taken in (float, complex) and made in (int, float):
        return True
    try:
        return issubclass(made, taken)
    except TypeError:  # A protocol that cannot be asked.
        return True
