"""Finds workflow files by name or path (B §3)."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pi_workflows.authoring.definition import WORKFLOW_SUFFIX
from pi_workflows.authoring.errors import SourceUnknown
from pi_workflows.protocol.builtins import BUILTINS
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.sources import BUILTIN_PREFIX

_NEAREST_MAX: Final = 3


class Origin(enum.StrEnum):
    """In which place a workflow has its name, in order of precedence."""

    PROJECT = "project"
    GLOBAL = "global"
    BUILTIN = "builtin"


@dataclass(frozen=True, slots=True)
class NamedWorkflow:
    """A workflow that has a name somewhere.

    Attributes:
        path: absolute path of its file.
        shadowed_by: path of the file that the name leads to; None when it leads to this one.
    """

    name: str
    origin: Origin
    path: Path
    shadowed_by: Path | None


def find(reference: str, project_dir: Path, home: Path) -> Path:
    """Return the absolute path of a workflow file.

    Args:
        reference: a path, if it has a slash, a backslash or ends with `.workflow.py`; it is
            relative to `project_dir`. Else a name: the stem of a file in the project's
            `.pi/workflows/` or, after it, in the user's `~/.pi/agent/workflows/`, or, after
            both, a built-in; `builtin:<id>` is a built-in whatever else has its name.

    Raises:
        SourceUnknown: nothing is there; the text says where was looked, and lists the names that
            exist, nearest first.
    """
    if is_path(reference):
        path = (project_dir / reference).absolute()
        if not _exists(path):
            raise _missing(reference, path)
        return path
    if reference.startswith(BUILTIN_PREFIX):
        return _builtin(reference)
    names = list_names(project_dir, home)
    if reference not in names:
        raise _unknown(reference, sorted(names), project_dir, home)
    return names[reference]


def is_path(reference: str) -> bool:
    """Say whether a reference is a path, not a name."""
    return "/" in reference or "\\" in reference or reference.endswith(WORKFLOW_SUFFIX)


def list_names(project_dir: Path, home: Path) -> dict[str, Path]:
    """Return every workflow that can be named, by name, in order of discovery."""
    return {
        found.name: found.path
        for found in list_workflows(project_dir, home)
        if found.shadowed_by is None
    }


def list_workflows(project_dir: Path, home: Path) -> list[NamedWorkflow]:
    """Return every workflow that has a name in the project, for the user, or by itself.

    Folders are not searched recursively; only regular files count; the first of a name wins.
    Hidden built-ins are left out. Nothing of the files is read.
    """
    found: list[NamedWorkflow] = []
    winners: dict[str, Path] = {}
    for name, origin, path in _candidates(project_dir, home):
        winner = winners.setdefault(name, path)
        found.append(NamedWorkflow(name, origin, path, None if winner is path else winner))
    return found


def _candidates(project_dir: Path, home: Path) -> Iterator[tuple[str, Origin, Path]]:
    places = (Origin.PROJECT, Origin.GLOBAL)
    for origin, folder in zip(places, _folders(project_dir, home), strict=True):
        for path in _workflow_files(folder):
            yield path.name.removesuffix(WORKFLOW_SUFFIX), origin, path
    for builtin in BUILTINS.values():
        if not builtin.hidden:
            yield builtin.builtin_id, Origin.BUILTIN, builtin.file


def _builtin(reference: str) -> Path:
    found = BUILTINS.get(reference.removeprefix(BUILTIN_PREFIX))
    if found is not None:
        return found.file
    names = [f"{BUILTIN_PREFIX}{name}" for name, one in BUILTINS.items() if not one.hidden]
    message = f'there is no built-in workflow "{reference}". There is: {", ".join(names)}.'
    raise SourceUnknown(reference, message, names=names)


def _folders(project_dir: Path, home: Path) -> tuple[Path, Path]:
    """Return the folders whose workflows have names, in order of precedence."""
    local = project_dir / ".pi" / "workflows"
    return local.absolute(), StatePaths(home).state_dir.absolute()


def _workflow_files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except (OSError, ValueError):  # Absent, unreadable, or of a name that no folder has.
        return
    for path in entries:
        if path.name.endswith(WORKFLOW_SUFFIX) and path.name != WORKFLOW_SUFFIX and path.is_file():
            yield path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # Too long, forbidden, or holding a NUL character.
        return False


def _unknown(reference: str, names: list[str], project_dir: Path, home: Path) -> SourceUnknown:
    import difflib  # noqa: PLC0415 - needed for this message only

    nearest = difflib.get_close_matches(reference, names, _NEAREST_MAX)
    hint = f' Did you mean "{nearest[0]}"?' if nearest else ""
    known = _listed(names)
    first, second = _folders(project_dir, home)
    message = (
        f'there is no workflow named "{reference}" in {first} or {second}.{hint}'
        f"{_beside(reference, project_dir)} Known workflows: {known}."
    )
    return SourceUnknown(reference, message, names=names, nearest=nearest)


def _missing(reference: str, path: Path) -> SourceUnknown:
    files = _listed([file.name for file in _workflow_files(path.parent)])
    message = f"there is no workflow file {path}. Workflow files in that folder: {files}."
    return SourceUnknown(reference, message)


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"


def _beside(reference: str, project_dir: Path) -> str:
    """Say what stands in the project folder itself under this name, where no name leads."""
    plain = (project_dir / reference).absolute()
    file = (project_dir / f"{reference}{WORKFLOW_SUFFIX}").absolute()
    try:
        if reference and file.is_file():
            return f" There is {file}: give that path."
        if reference and plain.is_dir():
            return f" {plain} is a folder; name a workflow file in it."
    except (OSError, ValueError):  # Too long, or holding a NUL character.
        return ""
    return ""
