"""Finds workflow files by name or path (B §3)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pi_workflows.authoring.definition import WORKFLOW_SUFFIX
from pi_workflows.authoring.errors import SourceUnknown
from pi_workflows.protocol.paths import StatePaths

_NEAREST_MAX: Final = 3
_BUILTIN_PREFIX: Final = "builtin:"


def find(reference: str, project_dir: Path, home: Path) -> Path:
    """Return the absolute path of a workflow file.

    Args:
        reference: a path, if it has a slash, a backslash or ends with `.workflow.py`; it is
            relative to `project_dir`. Else a name: the stem of a file in the project's
            `.pi/workflows/` or, after it, in the user's `~/.pi/agent/workflows/`.

    Raises:
        SourceUnknown: nothing is there; the text says where was looked, and lists the names that
            exist, nearest first.
    """
    if is_path(reference):
        path = (project_dir / reference).absolute()
        if not _exists(path):
            raise SourceUnknown(reference, f"there is no workflow file {path}.")
        return path
    names = list_names(project_dir, home)
    if reference not in names:
        raise _unknown(reference, sorted(names), project_dir, home)
    return names[reference]


def is_path(reference: str) -> bool:
    """Say whether a reference is a path, not a name."""
    return "/" in reference or "\\" in reference or reference.endswith(WORKFLOW_SUFFIX)


def list_names(project_dir: Path, home: Path) -> dict[str, Path]:
    """Return every workflow that can be named, by name, in order of discovery.

    Folders are not searched recursively; only regular files count; the first of a name wins.
    """
    names: dict[str, Path] = {}
    for folder in _folders(project_dir, home):
        for path in _workflow_files(folder):
            names.setdefault(path.name.removesuffix(WORKFLOW_SUFFIX), path)
    return names


def _folders(project_dir: Path, home: Path) -> tuple[Path, Path]:
    """Return the folders whose workflows have names, in order of precedence."""
    local = project_dir / ".pi" / "workflows"
    return local.absolute(), StatePaths(home).state_dir.absolute()


def _workflow_files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # An absent or unreadable folder offers no names.
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

    if reference.startswith(_BUILTIN_PREFIX):
        return SourceUnknown(reference, f'there is no built-in workflow "{reference}".')
    nearest = difflib.get_close_matches(reference, names, _NEAREST_MAX)
    hint = f' Did you mean "{nearest[0]}"?' if nearest else ""
    known = ", ".join(names) if names else "none"
    first, second = _folders(project_dir, home)
    message = (
        f'there is no workflow named "{reference}" in {first} or {second}.{hint}'
        f"{_beside(reference, project_dir)} Known workflows: {known}."
    )
    return SourceUnknown(reference, message, names=names, nearest=nearest)


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
