"""Tells whether an error comes from a file that hides an installed module of the same name.

The folder of a scenario comes first on the import path, as that of a script does. So a file such
as `attr.py` beside it is what a library gets that asks for the module `attr`.
"""

import importlib.machinery
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType


def hidden_by(error: BaseException, folders: Collection[str]) -> str | None:
    """Return what to say of the file that is to blame; None if none is.

    Args:
        folders: those of scenarios, as they stand in `sys.path`.
    """
    for name in dict.fromkeys(_blamed(error)):
        for folder in folders:
            file = _file(Path(folder), name)
            if file is not None and _is_elsewhere(name, folder):
                return (
                    f"{file} hides the module {name!r} that is installed, and that a library"
                    " needs; give it another name."
                )
    return None


def _blamed(error: BaseException | None) -> Iterator[str]:
    """Yield the modules that an error and its causes are about, without their packages' parts."""
    while error is not None:
        if isinstance(error, ImportError) and error.name:
            yield error.name.partition(".")[0]
        if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
            yield error.obj.__name__.partition(".")[0]
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_name == "<module>":
                yield str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
            trace = trace.tb_next
        error = error.__cause__ or error.__context__


def _file(folder: Path, name: str) -> Path | None:
    for file in (folder / f"{name}.py", folder / name / "__init__.py"):
        if file.is_file():
            return file
    return None


def _is_elsewhere(name: str, folder: str) -> bool:
    """Whether the module would be found without the folder, and is another one."""
    if name in sys.stdlib_module_names:
        return True
    others = [each for each in sys.path if each and Path(each).resolve() != Path(folder).resolve()]
    found = importlib.machinery.PathFinder.find_spec(name, others)
    if found is None or found.origin is None:
        return False
    return Path(folder).resolve() not in Path(found.origin).resolve().parents
