"""Reads, hashes and executes workflow files; only resolver and runner children do this."""

import functools
import hashlib
import itertools
import re
import stat
import sys
import traceback
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Final

from pydantic import ValidationError

from pi_workflows.authoring.broken_models import told_without_values, traceback_text
from pi_workflows.authoring.definition import WORKFLOW_SUFFIX, Definition
from pi_workflows.authoring.errors import DefinitionError, LoadError, Location, SourceUnknown
from pi_workflows.authoring.workflow import Workflow
from pi_workflows.protocol.errors import ErrorCode

DETAIL_CHARS_MAX: Final = 8_192
_ERROR_CHARS_MAX: Final = 2_000
_VOWELS: Final = "AEIOUaeiou"
_OUR_PACKAGE: Final = Path(__file__).parents[1]
_SERIAL: Final = itertools.count(1)
# What an import may raise that names its place itself; all else is blamed on the file's own line.
_ABOUT_THE_FILE: Final = (DefinitionError, LoadError, SourceUnknown)


def source_identity(path: Path) -> tuple[bytes, str]:
    """Read a workflow file and return its bytes and their SHA-256 as hexadecimal digits.

    Raises:
        SourceUnknown: there is no such file.
        LoadError: `SOURCE_NOT_A_WORKFLOW` for what is no regular Python file, `SOURCE_FAILED`
            for one that cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            message = f"{path} is a folder; name a workflow file in it."
            raise LoadError(ErrorCode.SOURCE_NOT_A_WORKFLOW, message, file=str(path))
        if not stat.S_ISREG(mode) or path.suffix != ".py":
            message = f"{path} is no workflow file; its name ends with {WORKFLOW_SUFFIX}."
            raise LoadError(ErrorCode.SOURCE_NOT_A_WORKFLOW, message, file=str(path))
        source = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise SourceUnknown(str(path), f"there is no workflow file {path}.") from None
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}."
        raise LoadError(ErrorCode.SOURCE_FAILED, message, file=str(path)) from None
    return source, hashlib.sha256(source).hexdigest()


def load_file(path: Path, source: bytes) -> Definition:
    """Execute exactly these bytes as the module at `path` and return its `workflow`.

    The module gets a name of its own each time and stays in `sys.modules`, where pydantic and
    dataclasses look names up. The file's directory comes first on the import path and stays there.

    Raises:
        DefinitionError: the file's workflow is wrong.
        LoadError: `SOURCE_FAILED` for a syntax error or an exception while it is imported,
            `SOURCE_NOT_A_WORKFLOW` when it does not bind `workflow` to a built definition.
    """
    module = _execute(path, source)
    workflow = getattr(module, "workflow", None)
    if isinstance(workflow, Definition):
        return workflow
    if isinstance(workflow, Workflow):
        found = 'binds "workflow" to a Workflow that is not built'
    elif workflow is None:
        found = 'does not bind "workflow"'
    else:
        kind = type(workflow).__name__
        found = f'binds "workflow" to {"an" if kind[0] in _VOWELS else "a"} {kind}'
    message = f"{path.name} {found}. End it with: workflow = wf.build(start=first_node)."
    raise LoadError(ErrorCode.SOURCE_NOT_A_WORKFLOW, message, file=str(path))


def _execute(path: Path, source: bytes) -> ModuleType:
    stem = re.sub(r"\W", "_", path.name.removesuffix(WORKFLOW_SUFFIX))
    module = ModuleType(f"workflow_{next(_SERIAL)}_{stem}")
    module.__file__ = str(path)
    sys.path.insert(0, str(path.parent))
    sys.modules[module.__name__] = module
    try:
        code = _compiled(source, str(path))
        exec(code, module.__dict__)  # noqa: S102 - running the author's file is the purpose
    except _ABOUT_THE_FILE as error:
        del sys.modules[module.__name__]
        error.detail = error.detail or _detail(path, error)
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code runs here
        del sys.modules[module.__name__]
        raise failure_of(path, error) from None
    return module


@functools.lru_cache(maxsize=8)
def _compiled(source: bytes, path: str) -> CodeType:
    """Compile a file once, however often it is loaded: simulations load it thousands of times."""
    return compile(source, path, "exec", dont_inherit=True)


def failure_of(path: Path, error: BaseException) -> LoadError:
    """Return the refusal of a file that raised this while it was imported."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        place = Location(error.filename, error.lineno or 1)
        text = error.msg
    else:
        place = _blamed(path, error)
        text = _text_of(error)
    message = f"{place.short}: {type(error).__name__}: {text}".removesuffix(": ")
    return LoadError(
        ErrorCode.SOURCE_FAILED,
        message,
        file=place.file,
        line=place.line,
        detail=_detail(path, error),
    )


def _blamed(path: Path, error: BaseException) -> Location:
    """Return the innermost frame in the workflow's own directory; line 1 of the file if none."""
    blamed = Location(str(path), 1)
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if Path(file).parent == path.parent:
            blamed = Location(file, line)
    return blamed


def _text_of(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return _bounded(told_without_values(error))
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - an author's __str__ may raise anything
        text = "(its text cannot be read)"
    return _bounded(text)


def _bounded(text: str) -> str:
    return text if len(text) <= _ERROR_CHARS_MAX else f"{text[:_ERROR_CHARS_MAX]}…"


def _detail(path: Path, error: BaseException) -> str:
    """Return the author's part of the traceback, its end kept when it is too long."""
    own: TracebackType | None = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename != str(path):
        own = own.tb_next
    limit = None
    if isinstance(error, _ABOUT_THE_FILE):  # What follows is how this package found it.
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(own)]
        limit = next((at for at, file in enumerate(files) if _is_ours(file)), None)
    return traceback_text(error, own, limit)[-DETAIL_CHARS_MAX:]


def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(_OUR_PACKAGE)
