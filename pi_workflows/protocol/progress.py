"""`pi-workflows.progress.v1`: how far something has come, as an update of type `progress`."""

import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue

PROGRESS_SCHEMA: Final = "pi-workflows.progress.v1"
PROGRESS_TYPE: Final = "progress"
OVERALL_KEY: Final = "overall"
"""Key of the one progress that speaks for the whole run."""

LABEL_CHARS_MAX: Final = 200
PHASE_CHARS_MAX: Final = 128
UNIT_CHARS_MAX: Final = 32

_INSTANT: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_TEXT_MAX: Final = {"label": LABEL_CHARS_MAX, "phase": PHASE_CHARS_MAX, "unit": UNIT_CHARS_MAX}
_FIELDS: Final = frozenset(
    {
        "schema",
        "status",
        "label",
        "phase",
        "completed",
        "total",
        "unit",
        "sourceUpdatedAt",
        "sourceEstimatedFinishAt",
    }
)


class ProgressStatus(enum.StrEnum):
    """What the thing that progresses is doing."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """True when no more is expected."""
        return self in {
            ProgressStatus.COMPLETED,
            ProgressStatus.FAILED,
            ProgressStatus.CANCELLED,
        }


class ProgressInvalid(ValueError):
    """Data is no progress; the text names the field and its rule, never its value."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far something has come; None where nothing is said.

    Attributes:
        label: what it is, at most 200 characters.
        phase: which part of it is under way, at most 128 characters.
        completed: 0 or more.
        total: above 0 and not below `completed`.
        unit: of what is counted, 1 to 32 characters; there whenever something is counted.
        source_updated_at: when the source said so; UTC epoch milliseconds.
        source_estimated_finish_at: when the source thinks it ends; UTC epoch milliseconds.
    """

    status: ProgressStatus = ProgressStatus.RUNNING
    label: str | None = None
    phase: str | None = None
    completed: float | None = None
    total: float | None = None
    unit: str | None = None
    source_updated_at: int | None = None
    source_estimated_finish_at: int | None = None


def progress_data(
    *,
    status: str = ProgressStatus.RUNNING,
    label: str | None = None,
    phase: str | None = None,
    completed: float | None = None,
    total: float | None = None,
    unit: str | None = None,
    source_updated_at: datetime | None = None,
    source_estimated_finish_at: datetime | None = None,
) -> JsonObject:
    """Return the data of a progress update; what is None is left out.

    Raises:
        ProgressInvalid: a value breaks the rule of its field.
    """
    given: dict[str, object] = {
        "schema": PROGRESS_SCHEMA,
        "status": str(status),
        "label": label,
        "phase": phase,
        "completed": completed,
        "total": total,
        "unit": unit,
        "sourceUpdatedAt": _text_of("source_updated_at", source_updated_at),
        "sourceEstimatedFinishAt": _text_of(
            "source_estimated_finish_at", source_estimated_finish_at
        ),
    }
    data = {name: value for name, value in given.items() if value is not None}
    parse_progress(data)
    return cast("JsonObject", data)


def parse_progress(data: Mapping[str, object]) -> Progress:
    """Read the data of a progress update.

    Raises:
        ProgressInvalid: a field is unknown, missing, or breaks its rule.
    """
    unknown = sorted(data.keys() - _FIELDS)
    if unknown:
        raise ProgressInvalid(f"it has no field {unknown[0][:64]}")
    if data.get("schema") != PROGRESS_SCHEMA:
        raise ProgressInvalid(f"its schema is {PROGRESS_SCHEMA}")
    status = data.get("status")
    if not isinstance(status, str) or status not in set(ProgressStatus):
        raise ProgressInvalid(f"status is one of {', '.join(ProgressStatus)}")
    completed, total = _number(data, "completed"), _number(data, "total")
    unit = _text(data, "unit")
    if (completed is not None or total is not None) and unit is None:
        raise ProgressInvalid("completed and total need a unit")
    if completed is not None and completed < 0:
        raise ProgressInvalid("completed is 0 or more")
    if total is not None and total <= 0:
        raise ProgressInvalid("total is more than 0")
    if total is not None and completed is not None and completed > total:
        raise ProgressInvalid("completed is not more than total")
    return Progress(
        ProgressStatus(status),
        _text(data, "label"),
        _text(data, "phase"),
        completed,
        total,
        unit,
        _instant(data, "sourceUpdatedAt"),
        _instant(data, "sourceEstimatedFinishAt"),
    )


def progress_of(update: Mapping[str, JsonValue]) -> Progress | None:
    """Return the progress that a stored update of type `progress` tells; None for any other."""
    data = update.get("data")
    if update.get("type") != PROGRESS_TYPE or not isinstance(data, dict):
        return None
    try:
        return parse_progress(data)
    except ProgressInvalid:
        return None


def _number(data: Mapping[str, object], name: str) -> float | None:
    value = data.get(name)
    if value is None and name not in data:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ProgressInvalid(f"{name} is a number")
    return value


def _text(data: Mapping[str, object], name: str) -> str | None:
    if name not in data:
        return None
    value, limit = data[name], _TEXT_MAX[name]
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value.encode("utf-16-le", "surrogatepass")) // 2 > limit
    ):
        raise ProgressInvalid(f"{name} is a text of 1 to {limit} characters")
    return value


def _instant(data: Mapping[str, object], name: str) -> int | None:
    """Return an RFC 3339 instant as UTC epoch milliseconds."""
    if name not in data:
        return None
    value = data[name]
    problem = f"{name} is an RFC 3339 instant with an offset"
    if not isinstance(value, str) or _INSTANT.fullmatch(value) is None:
        raise ProgressInvalid(problem)
    try:
        return round(datetime.fromisoformat(value).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise ProgressInvalid(problem) from error


def _text_of(name: str, moment: object) -> str | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ProgressInvalid(f"{name} is a datetime with a time zone")
    return moment.isoformat()
