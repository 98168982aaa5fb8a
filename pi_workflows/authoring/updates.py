"""What a node may say of itself while it works: updates, progress, and lines that hold them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

from pi_workflows.authoring.callables import is_async, takes, yields
from pi_workflows.authoring.errors import UpdateRefused
from pi_workflows.protocol.progress import (
    OVERALL_KEY,
    PROGRESS_TYPE,
    ProgressInvalid,
    ProgressStatus,
    progress_data,
)
from pi_workflows.protocol.updates import UPDATE_INVALID, update_problem

STREAMS: Final = ("stdout", "stderr")
_STREAM_CHOICES: Final = (["stdout"], ["stderr"], ["stdout", "stderr"], ["stderr", "stdout"])

_PARSER_RULE: Final = (
    "updates is a function of (line) or (line, stream) that returns an Update, several, or None; "
    'or UpdateLines(function, streams=("stdout", "stderr")).'
)


@dataclass(frozen=True, slots=True)
class Update:
    """One thing that a node says of itself; replaces the current one of its type and key.

    Attributes:
        type: 1 to 64 of `a-z 0-9 . -`, beginning with a letter.
        key: 1 to 128 of `A-Z a-z 0-9 . _ : / -`, beginning with a letter or digit.
        data: a JSON object of at most 64 KiB.

    Raises:
        UpdateRefused: code `UPDATE_INVALID`: one of them breaks its rule.
    """

    type: str
    key: str
    data: Mapping[str, Any]

    def __post_init__(self) -> None:
        given: object = self.data
        data = dict(given) if isinstance(given, Mapping) else given
        problem = update_problem(self.type, self.key, data)
        if problem is not None:
            raise UpdateRefused(UPDATE_INVALID, f"the update is not sent: {problem}")
        object.__setattr__(self, "data", data)


LineParser: TypeAlias = Callable[..., Update | Iterable[Update] | None]
"""Takes a line of a command's output, without its end, and the stream's name if it wants to."""


@dataclass(frozen=True, slots=True)
class UpdateLines:
    """Updates that a shell node finds in the output of its command, line by line.

    Attributes:
        parser: called with each whole line, in order, while the command runs. The command waits
            meanwhile. What it raises ends the command and fails the node.
        streams: which of `stdout` and `stderr` are read so.
    """

    parser: LineParser
    streams: Sequence[str] = field(default=("stdout",))


def said_updates(said: object) -> list[Update]:
    """Return what a line parser has said as a list.

    Raises:
        TypeError: it is neither an update, nor several, nor None.
    """
    if said is None:
        return []
    if isinstance(said, Update):
        return [said]
    return [_checked(it) for it in (said if isinstance(said, Iterable) else [said])]


def _checked(said: object) -> Update:
    if isinstance(said, Update):
        return said
    raise TypeError(f"the line parser returns updates or None, not {type(said).__name__}")


def updates_rule(updates: object) -> str | None:
    """Check the line parser of a shell node; None is fine."""
    if updates is None:
        return None
    parser = updates.parser if isinstance(updates, UpdateLines) else updates
    if not callable(parser) or not (takes(parser, 1) or takes(parser, 2)):
        return _PARSER_RULE
    if is_async(parser) or yields(parser):
        return "the line parser is an ordinary function, neither async nor a generator."
    if not isinstance(updates, UpdateLines):
        return None
    streams: object = updates.streams
    listed = list(streams) if isinstance(streams, list | tuple) else []
    if listed not in _STREAM_CHOICES:
        return 'streams is one or both of "stdout" and "stderr".'
    return None


def update_lines(updates: object) -> UpdateLines | None:
    """Return a checked line parser in its one form."""
    if updates is None or isinstance(updates, UpdateLines):
        return updates
    assert callable(updates), "checked by its rule"
    return UpdateLines(updates)


def progress(  # noqa: PLR0913 - by name only: the fields of the schema
    *,
    completed: float | None = None,
    total: float | None = None,
    unit: str | None = None,
    label: str | None = None,
    phase: str | None = None,
    status: str = ProgressStatus.RUNNING,
    source_updated_at: datetime | None = None,
    source_estimated_finish_at: datetime | None = None,
    key: str = OVERALL_KEY,
) -> Update:
    """Say how far something has come, as an update of type `progress`.

    Args:
        completed: 0 or more; needs a unit.
        total: above 0 and not below `completed`; needs a unit.
        unit: of what is counted, at most 32 characters.
        label: what it is, at most 200 characters.
        phase: which part of it is under way, at most 128 characters.
        status: `pending`, `running`, `waiting`, `blocked`, `completed`, `failed`, `cancelled` or
            `unknown`.
        source_updated_at: when the source said so, with a time zone.
        source_estimated_finish_at: when the source thinks it ends, with a time zone.
        key: what progresses; `overall` speaks for the whole run.

    Raises:
        UpdateRefused: code `UPDATE_INVALID`: a value breaks its rule.
    """
    try:
        data = progress_data(
            status=status,
            label=label,
            phase=phase,
            completed=completed,
            total=total,
            unit=unit,
            source_updated_at=source_updated_at,
            source_estimated_finish_at=source_estimated_finish_at,
        )
    except ProgressInvalid as error:
        raise UpdateRefused(UPDATE_INVALID, f"the progress is not sent: {error}") from error
    return Update(PROGRESS_TYPE, key, data)
