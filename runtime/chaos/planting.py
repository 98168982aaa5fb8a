"""Plants a fault in the code from outside, for a while: a harness that cannot fail proves nothing.

The code holds no switch for it. A fault names what it changes, by module and name, and changes it
in the running process: the source of a function, a text, or any other attribute. What a fault no
longer finds is refused, so that none of them rots without a word.
"""

import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Container, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

from runtime.chaos.recompiling import code_with, written_code

Undo = Callable[[], None]

_SOURCES: Final[dict[types.FunctionType, str]] = {}
"""What functions that are rewritten now look like."""


class PlantingRefused(Exception):
    """A fault does not fit the code any more; the text says what it looked for, and where."""


class Change(Protocol):
    """One thing that a fault changes."""

    @property
    def place(self) -> str:
        """What is changed: `package.module:NAME` or `package.module:Class.name`."""
        ...

    def plant(self) -> Undo:
        """Make the change, and return what takes it back.

        Raises:
            PlantingRefused: what is to be changed is not there, or not as expected.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class Rewritten:
    """A function or method in whose source one passage stands otherwise.

    The function object stays the same, so whoever has imported it, bound it or put it into a
    table runs the changed code too.

    Attributes:
        old: the passage; it occurs in the source of the function exactly once.
        new: what stands there instead; must leave the function's free variables as they are.
    """

    place: str
    old: str
    new: str

    def plant(self) -> Undo:
        """Give the function the code of its changed source; see `Change`."""
        function = _function_at(self.place)
        kept = function.__code__
        source = _SOURCES.get(function) or _source_of(self.place, function)
        changed = _with_passage(self.place, source, self.old, self.new)
        try:
            code = code_with(changed, function)
        except SyntaxError as error:
            raise PlantingRefused(
                f"{self.place} cannot be compiled with {self.new!r}: {error.msg}"
            ) from error
        if written_code(code) == written_code(kept):
            raise PlantingRefused(f"{self.place} does the same with {self.new!r}")
        try:
            function.__code__ = code
        except ValueError as error:
            raise PlantingRefused(
                f"{self.place} would use other variables of its surroundings with {self.new!r}"
            ) from error

        _SOURCES[function] = changed

        def undo() -> None:
            function.__code__ = kept
            _SOURCES[function] = source

        return undo


@final
@dataclass(frozen=True, slots=True)
class Reworded:
    """A text, or a tuple of texts, in which one passage stands otherwise: an SQL statement.

    Attributes:
        old: the passage; it occurs exactly once, in all texts of a tuple together.
        new: what stands there instead.
    """

    place: str
    old: str
    new: str

    def plant(self) -> Undo:
        """Put the changed text wherever the old one is known; see `Change`."""
        known = _attribute_at(self.place)
        if isinstance(known, str):
            return _put(self.place, known, _with_passage(self.place, known, self.old, self.new))
        if not (isinstance(known, tuple) and all(isinstance(each, str) for each in known)):
            raise PlantingRefused(f"{self.place} is no text; replace it as a whole")
        _with_passage(self.place, "\n".join(known), self.old, self.new)
        return _put(self.place, known, tuple(text.replace(self.old, self.new) for text in known))


@final
@dataclass(frozen=True, slots=True)
class Replaced:
    """Anything else: a function, method or value, replaced as a whole.

    Modules that have imported it get the replacement too (a value only under its own name); a
    table or a partial that holds it does not.

    Attributes:
        make: is given what stands there, and returns what is to stand there instead.
    """

    place: str
    make: Callable[[Any], Any]

    def plant(self) -> Undo:
        """Put the replacement wherever the old one is known; see `Change`."""
        known = _attribute_at(self.place)
        return _put(self.place, known, self.make(known))


@contextmanager
def planted(changes: Sequence[Change]) -> Generator[None]:
    """Plant all changes for the time of a block, or none of them.

    Everything is as before afterwards, also in modules that were imported meanwhile.

    Raises:
        PlantingRefused: one of them does not fit the code; nothing is changed.
    """
    with ExitStack() as undo:
        for change in changes:
            undo.callback(change.plant())
        yield


def _put(place: str, old: object, new: object) -> Undo:
    """Replace an attribute where it is defined and in every module that has imported it."""
    if new is old:
        raise PlantingRefused(f"{place} would stay as it is")
    owner, name = _owner_of(place)
    if isinstance(owner, type):
        setattr(owner, name, new)
        return lambda: setattr(owner, name, old)
    swapped = _swapped(owner, name, old, new)
    known = set(sys.modules)

    def undo() -> None:
        for module, attribute in swapped:
            setattr(module, attribute, old)
        _swapped(owner, name, new, old, besides=known)

    return undo


def _swapped(
    owner: types.ModuleType,
    name: str,
    old: object,
    new: object,
    besides: Container[str] = (),
) -> list[tuple[types.ModuleType, str]]:
    """Put `new` for `old` in all modules that have imported it; return what was changed."""
    found: list[tuple[types.ModuleType, str]] = []
    for module_name, module in list(sys.modules.items()):
        if module_name in besides or not isinstance(module, types.ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if value is old and _is_from(owner, name, module, attribute):
                setattr(module, attribute, new)
                found.append((module, attribute))
    return found


def _is_from(owner: types.ModuleType, name: str, module: types.ModuleType, attribute: str) -> bool:
    """Say whether an attribute of a module is the owner's.

    A number is the same object wherever it is written, a function or class is not.
    """
    value = vars(module)[attribute]
    if module is owner:
        return attribute == name
    if isinstance(value, types.FunctionType | type):
        return True
    try:
        return attribute == name and f"from {owner.__name__} import" in inspect.getsource(module)
    except (OSError, TypeError):
        return False


def _with_passage(place: str, text: str, old: str, new: str) -> str:
    found = text.count(old)
    if found != 1:
        raise PlantingRefused(
            f"{place} holds {old!r} {found} times and not once;"
            " the fault has to follow the code as it is now."
        )
    return text.replace(old, new)


def _function_at(place: str) -> types.FunctionType:
    found = _attribute_at(place)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    found = inspect.unwrap(found) if callable(found) else found
    if not isinstance(found, types.FunctionType):
        raise PlantingRefused(f"{place} is no function that is written in Python")
    return found


def _source_of(place: str, function: types.FunctionType) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise PlantingRefused(f"the source of {place} cannot be read") from error


def _attribute_at(place: str) -> Any:  # noqa: ANN401 - an attribute can be anything
    owner, name = _owner_of(place)
    try:
        return vars(owner)[name]
    except KeyError as error:
        raise PlantingRefused(
            f"{place} is not there; the fault has to follow the code as it is now."
        ) from error


def _owner_of(place: str) -> tuple[types.ModuleType | type, str]:
    """Return the module or class that has the attribute, and the attribute's name."""
    module_name, colon, path = place.partition(":")
    *outer, name = path.split(".")
    if not colon or not name:
        raise PlantingRefused(f"{place!r} names no attribute; write package.module:NAME")
    try:
        owner: Any = importlib.import_module(module_name)
        for each in outer:
            owner = vars(owner)[each]
    except (ImportError, KeyError) as error:
        raise PlantingRefused(
            f"{place} is not there; the fault has to follow the code as it is now."
        ) from error
    if not isinstance(owner, types.ModuleType | type):
        raise PlantingRefused(f"{place} is an attribute of no module and no class")
    return owner, name
