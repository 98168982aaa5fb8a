"""Finds the scenario that somebody has named: a shipped one, or one in a file of their own."""

import dataclasses
import difflib
import itertools
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pi_workflows.chaos.registry import SCENARIOS, scenarios_in
from pi_workflows.chaos.shadowing import hidden_by
from runtime.chaos.guard import Guard
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.own_code import OwnCode
from runtime.chaos.scenario import Scenario

_SEPARATOR: Final = "::"
_ERROR_CHARS_MAX: Final = 500
_NAMES_MAX: Final = 8
"""More names than fit a line are not listed."""

_SERIAL: Final = itertools.count(1)

_FOLDERS: Final[set[str]] = set()
"""Those of scenarios, which came first on the import path."""


class ScenarioUnknown(Exception):
    """A name leads to no scenario; the text says why, and what to do next.

    Attributes:
        detail: the author's traceback when the file failed; None else.
    """

    def __init__(self, message: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.detail = detail


def find(ref: str, beside: Path | None = None) -> Scenario[Any]:
    """Return the one scenario that a reference names.

    Args:
        ref: `NAME` of a shipped scenario, or `FILE::NAME`.
        beside: where a relative FILE is looked for if the working directory has none: in this
            folder, then in those above it; None looks nowhere else.

    Raises:
        ScenarioUnknown: it leads to none, or the file fails when it is imported.
    """
    found = find_all(ref, beside)
    if len(found) > 1:
        names = ", ".join(scenario.ref for scenario in found)
        raise ScenarioUnknown(f"{ref} holds {len(found)} scenarios; name one of them: {names}.")
    return found[0]


def find_all(ref: str, beside: Path | None = None) -> list[Scenario[Any]]:
    """Return the scenarios that a reference names: as `find`, or all that a FILE holds.

    Raises:
        ScenarioUnknown: as `find`.
    """
    file, separator, name = ref.rpartition(_SEPARATOR)
    if not separator:
        if not ref.endswith(".py"):
            return [_shipped(ref)]
        file, name = ref, ""
    path = _located(Path(file), beside)
    declared = scenarios_in(vars(_imported(path)))
    if not declared:
        raise ScenarioUnknown(f"{file} declares no scenario; decorate a function with @scenario.")
    named = [
        dataclasses.replace(scenario, ref=f"{file}{_SEPARATOR}{scenario.name}")
        for scenario in declared
        if name in {"", scenario.name}
    ]
    if not named:
        names = [scenario.name for scenario in declared]
        raise ScenarioUnknown(f'{file} has no scenario "{name}"{_hint(name, names)}')
    return named


def hidden_module(error: BaseException) -> ScenarioUnknown | None:
    """Return the refusal of a file beside a scenario that hides an installed module.

    Args:
        error: raised while something was imported or explored; None is returned if no such file
            is to blame for it.
    """
    text = hidden_by(error, _FOLDERS)
    if text is None:
        return None
    return ScenarioUnknown(text, "".join(traceback.format_exception(error)))


def _located(path: Path, beside: Path | None) -> Path:
    """Return where a file is; a relative one may lie elsewhere than in the working directory."""
    if beside is None or path.is_absolute() or path.exists():
        return path
    for folder in (beside, *beside.parents):
        if (folder / path).exists():
            return folder / path
    here = Path.cwd()
    there = "" if beside.resolve() == here.resolve() else f"{beside} or "
    raise ScenarioUnknown(
        f"there is no file {path}: neither in the current folder, {here}, nor in {there}a folder"
        " above it."
    )


def _shipped(name: str) -> Scenario[Any]:
    if name not in SCENARIOS:
        raise ScenarioUnknown(
            f'there is no scenario "{name}"{_hint(name, SCENARIOS)}'
            " `pi-workflows chaos list` shows all; one of your own is named FILE::NAME."
        )
    return SCENARIOS[name]


def _hint(name: str, names: Iterable[str]) -> str:
    known = list(names)
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; it has: {', '.join(known)}." if 0 < len(known) <= _NAMES_MAX else "."


def _imported(path: Path) -> ModuleType:
    """Execute the file as a module of its own; its folder comes first on the import path.

    What it calls meanwhile is refused as in an actor, and what it takes out of a module by name is
    refused later.

    Raises:
        ScenarioUnknown: there is no such file, or it fails, or does what is refused.
    """
    if path.is_dir():
        raise ScenarioUnknown(f"{path} is a folder; name a Python file in it.")
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        beside_it = [str(path.parent / each.name) for each in path.parent.glob("*.py")]
        close = difflib.get_close_matches(str(path), beside_it, n=1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise ScenarioUnknown(f"there is no file {path}{hint}") from None
    except (OSError, ValueError) as error:
        raise ScenarioUnknown(f"{path} cannot be read: {error}.") from None
    module = ModuleType(f"scenarios_{next(_SERIAL)}_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}")
    module.__file__ = str(path)
    guard = Guard(OwnCode(path))
    folder = str(path.absolute().parent)
    _FOLDERS.add(folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[module.__name__] = module
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
        with guard.installed():
            exec(code, module.__dict__)  # noqa: S102 - running the author's file is the purpose
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code runs here
        del sys.modules[module.__name__]
        raise _failure(path, guard.refusal or error) from None
    if guard.refusal is not None:
        del sys.modules[module.__name__]
        raise _failure(path, guard.refusal)
    return module


def _failure(path: Path, error: BaseException) -> ScenarioUnknown:
    """Return the refusal that blames the innermost line in the author's own folder."""
    if (hidden := hidden_module(error)) is not None:
        return hidden
    if isinstance(error, ScenarioRefused):
        return ScenarioUnknown(f"{path} is refused while it is imported: {error}")
    file, line = str(path), 1
    for frame, at in traceback.walk_tb(error.__traceback__):
        if Path(frame.f_code.co_filename).parent == path.parent:
            file, line = frame.f_code.co_filename, at
    text = str(error)
    if isinstance(error, SyntaxError):
        file, line, text = error.filename or file, error.lineno or line, error.msg
    said = f"{text[:_ERROR_CHARS_MAX]}" or "no reason given"
    return ScenarioUnknown(
        f"{file}:{line}: {type(error).__name__} while it is imported: {said}",
        "".join(traceback.format_exception(error)),
    )
