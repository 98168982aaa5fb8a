"""A JSON-lines log for operators: constant event names, bounded text, nothing secret.

Events in the database are the record; this is not. A log that cannot be written never stops the
server: lines are dropped, and the next one that gets through says how many.
"""

import contextlib
import json
import math
import os
import sys
import threading
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, Self, final

from pi_workflows.protocol.timestamps import rfc3339
from runtime.clock import Clock
from runtime.private_files import ensure_private_directory, open_private

TEXT_BYTES_MAX: Final = 2_048
FILE_BYTES_MAX: Final = 10 * 1_048_576
FILES_MAX: Final = 5
REDACTED: Final = "[redacted]"

_DEPTH_MAX: Final = 4
_ITEMS_MAX: Final = 64
_NEVER_WRITTEN: Final = (
    "token", "secret", "credential", "password", "authorization", "payload", "input", "output",
    "prompt", "environment",
)  # fmt: skip


class Level(StrEnum):
    """How much an operator should care."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogSink(Protocol):
    """Where the records of all logs of a process go."""

    def write(self, record: dict[str, object]) -> None:
        """Append one record; one that cannot be written is dropped."""
        ...

    def close(self) -> None:
        """Drop everything from now on."""
        ...


@final
class LogFile:
    """The file behind the logs: mode 0600, at most 5 files of 10 MiB, oldest dropped first."""

    def __init__(
        self, path: Path, *, to_stderr: bool = False, bytes_max: int = FILE_BYTES_MAX
    ) -> None:
        """Append to `path`, whose directory is made private if missing.

        Args:
            path: The newest file; older ones are `<path>.1` to `<path>.4`.
            to_stderr: Write every line to standard error too.
            bytes_max: Size at which a file is put aside.

        Raises:
            NotPrivate: The directory is open to others.
            OSError: The file cannot be opened.
        """
        ensure_private_directory(path.parent)
        self._path = path
        self._to_stderr = to_stderr
        self._bytes_max = bytes_max
        self._turn = threading.Lock()
        self._dropped = 0
        self._descriptor: int | None = self._open()

    def write(self, record: dict[str, object]) -> None:
        """Append one record as a line; a line that cannot be written is counted and dropped."""
        with self._turn:
            if self._dropped:
                record = {**record, "droppedLines": self._dropped}
            line = json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
            data = line.encode("utf-8", errors="replace")
            try:
                self._append(data)
                self._dropped = 0
            except OSError:
                self._dropped += 1
        if self._to_stderr:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(data.decode("utf-8"))
                sys.stderr.flush()

    def close(self) -> None:
        """Close the file; later lines are dropped."""
        with self._turn:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _append(self, data: bytes) -> None:
        if self._descriptor is None:
            return
        size = os.fstat(self._descriptor).st_size
        if size and size + len(data) > self._bytes_max:
            self._rotate()
        os.write(self._descriptor, data)

    def _rotate(self) -> None:
        for number in range(FILES_MAX - 1, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1)
            if newer.exists():
                newer.replace(older)
        descriptor = self._open()
        assert self._descriptor is not None
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _open(self) -> int:
        return open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@final
class Log:
    """Writes records of one component; `bind` adds fields that every record carries."""

    def __init__(
        self,
        file: LogSink,
        clock: Clock,
        component: str,
        bound: Mapping[str, object] | None = None,
    ) -> None:
        """Write to `file` as `component`, with the fields `bound` in every record."""
        self._file = file
        self._clock = clock
        self._component = component
        self._bound = dict(bound or {})

    def bind(self, component: str | None = None, **fields: object) -> Self:
        """Return a log with more fields, and another component if given."""
        bound = {**self._bound, **fields}
        return type(self)(self._file, self._clock, component or self._component, bound)

    def debug(self, event: str, **fields: object) -> None:
        """Write what only a developer wants."""
        self.write(Level.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Write what happened as it should."""
        self.write(Level.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Write what an operator may want to look at."""
        self.write(Level.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Write what an operator has to look at."""
        self.write(Level.ERROR, event, fields)

    def write(self, level: Level, event: str, fields: Mapping[str, object]) -> None:
        """Write one record.

        Args:
            level: How much it matters.
            event: A constant name in snake_case; data goes into `fields`.
            fields: Texts are cut at 2 KiB. A value whose key speaks of a token, secret,
                credential, password, payload, input, output, prompt or environment is replaced.
        """
        record: dict[str, object] = {
            "at": rfc3339(self._clock.wall_ms()),
            "level": level,
            "component": self._component,
            "event": event,
        }
        for key, value in {**self._bound, **fields}.items():
            record.setdefault(key, _presentable(key, value, 0))
        self._file.write(record)


def _presentable(key: str, value: object, depth: int) -> object:
    """Return `value` as bounded JSON data with nothing secret in it."""
    match value:
        case _ if any(word in key.lower() for word in _NEVER_WRITTEN):
            return REDACTED
        case None | bool() | int() | float():
            is_json = not isinstance(value, float) or math.isfinite(value)
            return value if is_json else str(value)
        case str():
            return _cut(value)
        case Mapping() if depth < _DEPTH_MAX:
            pairs = list(value.items())[:_ITEMS_MAX]
            return {str(k): _presentable(str(k), v, depth + 1) for k, v in pairs}
        case list() | tuple() if depth < _DEPTH_MAX:
            return [_presentable("", item, depth + 1) for item in value[:_ITEMS_MAX]]
        case _:
            return type(value).__name__


def _cut(text: str) -> str:
    data = text.encode("utf-8", errors="replace")
    if len(data) <= TEXT_BYTES_MAX:
        return text
    return data[: TEXT_BYTES_MAX - 3].decode("utf-8", errors="ignore") + "…"
