"""The one word a person sees for a run, why nothing happens, and what may be asked of it.

Pure: everything follows from the facts of one reading. Controls are hints; whoever handles a
command checks again.
"""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import (
    TERMINAL_RUN_STATUSES,
    DisplayStatus,
    ParkReason,
    QueueStatus,
    RunStatus,
)
from pi_workflows.protocol.timestamps import rfc3339
from store.run_summaries import SummaryRow

ENDED_STATUSES: Final = frozenset(DisplayStatus(status) for status in TERMINAL_RUN_STATUSES)
"""What is shown of a run that nothing moves any more."""

_CONTROLS: Final[dict[DisplayStatus, tuple[str, ...]]] = {
    DisplayStatus.RUNNING: ("pause", "cancel"),
    DisplayStatus.WAITING: ("pause", "cancel"),
    DisplayStatus.PAUSED: ("resume", "cancel"),
    DisplayStatus.QUEUED: ("pause", "cancel"),
    DisplayStatus.AMBIGUOUS: ("cancel",),
}

_REQUEST_CONTROLS: Final = {
    "checkpoint": ("answer",),
    "decision": ("human-answer",),
    "agent": ("update", "submit"),
}


@dataclass(frozen=True, slots=True)
class _Standstill:
    """Why a run does not move.

    Attributes:
        code: stable name of the reason.
        reason: what blocks it and what to do, for people.
        next: the command to run next.
        first: what has to be done before that command helps; None when nothing has.
    """

    code: str
    reason: str
    next: str
    first: str | None = None


_RESUME: Final = "pi-workflows resume {run_id}"
_BLOCKED: Final = {
    ParkReason.SOURCE_CHANGED: _Standstill(
        ParkReason.SOURCE_CHANGED.value,
        "the workflow's source is not the one this run was made with; restore it, then resume "
        f"the run ({_RESUME}); or cancel it (pi-workflows cancel {{run_id}}) and start the source "
        "as it now is anew (pi-workflows run)",
        _RESUME,
        "restore the source",
    ),
    ParkReason.NO_PROGRESS: _Standstill(
        ParkReason.NO_PROGRESS.value,
        "its runner died {deaths} times in a row without finishing a step; how the last one "
        "ended is in pi-workflows show {run_id}; mend the cause and resume the run for one more "
        f"try ({_RESUME}), or cancel it (pi-workflows cancel {{run_id}})",
        _RESUME,
    ),
    ParkReason.SETTINGS_BROKEN: _Standstill(
        ParkReason.SETTINGS_BROKEN.value,
        "its settings are not what their recorded changes make of them: something else than the "
        "server has written into the database; put a sound copy in its place and resume the run "
        f"({_RESUME}), or cancel it (pi-workflows cancel {{run_id}})",
        "pi-workflows state verify",
    ),
}
_AMBIGUOUS: Final = _Standstill(
    ParkReason.EFFECT_AMBIGUOUS.value,
    "nobody knows whether an action on the outside world happened, and it is not tried again by "
    "itself; look there, then say what you found (pi-workflows effects {run_id} names it), or "
    "cancel the run (pi-workflows cancel {run_id})",
    "pi-workflows effects {run_id}",
)
_PAUSED_AND_AMBIGUOUS: Final = _Standstill(
    _AMBIGUOUS.code,
    f"{_AMBIGUOUS.reason}; besides, it was paused: when that is said, resume it ({_RESUME})",
    _AMBIGUOUS.next,
)
_PAUSED: Final = _Standstill(
    "paused",
    f"it was paused and goes on, where it was stopped, when it is resumed ({_RESUME}); or cancel "
    "it (pi-workflows cancel {run_id})",
    _RESUME,
)
_REQUESTED: Final = _Standstill(
    "waitingForInteraction",
    "it needs an answer to a pending {kind} request",
    "pi-workflows show {run_id}",
)


def display_status(run: SummaryRow, now: int) -> DisplayStatus:
    """Return the display status; the first match wins (README 1).

    A terminal label beats an ambiguous effect, which beats a pause, which beats life.

    Args:
        now: UTC epoch ms; an owner whose claim has ended by then is no owner.
    """
    if run.finished_at is not None:
        return DisplayStatus(run.status)
    if run.ambiguous:
        return DisplayStatus.AMBIGUOUS
    if run.paused:
        return DisplayStatus.PAUSED
    if _is_served(run, now) or run.open_turn:
        return DisplayStatus.RUNNING
    answered = run.queue_status is QueueStatus.QUEUED
    if run.request_kind is not None or (run.status is RunStatus.WAITING and not answered):
        return DisplayStatus.WAITING
    return DisplayStatus.QUEUED


def display(run: SummaryRow, now: int, *, words: str | None = None) -> JsonObject:
    """Return `{status, paused?, code?, reason?, first?, next?, retryAt?, controls}`.

    `code`, `reason` and `next` are there exactly when the run needs somebody: a stable name of
    what blocks it, the same for people, and the command to run next; `first` when something has
    to be done before that command helps. `paused` is there, and true, when a run that is shown as
    ambiguous was paused too. `retryAt` is there when the scheduler is holding the run back after
    a death.

    Args:
        now: UTC epoch ms.
        words: what the runner said that gave the run up; None where that is not read.
    """
    status = display_status(run, now)
    shown: JsonObject = {"status": status.value}
    if status is DisplayStatus.AMBIGUOUS and run.paused:
        shown["paused"] = True
    standstill = _standstill(run, status)
    if standstill is not None:
        facts = {"run_id": run.run_id, "deaths": run.deaths, "kind": run.request_kind}
        shown["code"] = standstill.code
        shown["reason"] = _in_words(words, standstill, standstill.reason.format(**facts))
        if standstill.first is not None:
            shown["first"] = standstill.first
        shown["next"] = standstill.next.format(**facts)
    elif _is_held_back(run, status, now):
        assert run.available_at is not None
        shown["retryAt"] = rfc3339(run.available_at)
    listed: list[JsonValue] = [*_controls(run, status)]
    shown["controls"] = listed
    return shown


def standing(run: SummaryRow, now: int) -> str:
    """Return the word for people: the display status, `parked` for what nobody starts again."""
    status = display_status(run, now)
    parked = status is DisplayStatus.QUEUED and _standstill(run, status) is not None
    return "parked" if parked else status.value


def _is_served(run: SummaryRow, now: int) -> bool:
    """True while an owner is current and its runner is being launched or works."""
    claimed = run.claimed_until is not None and run.claimed_until > now
    return claimed and run.queue_status not in {QueueStatus.QUEUED, QueueStatus.PARKED}


def _is_held_back(run: SummaryRow, status: DisplayStatus, now: int) -> bool:
    return (
        status is DisplayStatus.QUEUED
        and run.queue_status is QueueStatus.PARKED
        and run.available_at is not None
        and run.available_at > now
    )


def _standstill(run: SummaryRow, status: DisplayStatus) -> _Standstill | None:
    match status:
        case DisplayStatus.AMBIGUOUS:
            return _PAUSED_AND_AMBIGUOUS if run.paused else _AMBIGUOUS
        case DisplayStatus.PAUSED if run.error_code in _BLOCKED:
            return _paused_and_blocked(_BLOCKED[ParkReason(run.error_code)])
        case DisplayStatus.PAUSED:
            return _PAUSED
        case DisplayStatus.WAITING if run.request_kind is not None:
            return _REQUESTED
        case DisplayStatus.QUEUED if run.error_code in _BLOCKED:
            return _BLOCKED[ParkReason(run.error_code)]
        case _:
            return None


def _paused_and_blocked(blocked: _Standstill) -> _Standstill:
    """A resume ends both; what blocks has to be mended before."""
    return _Standstill(
        _PAUSED.code, f"it was paused; besides, {blocked.reason}", blocked.next, blocked.first
    )


def _in_words(words: str | None, standstill: _Standstill, reason: str) -> str:
    """Return the reason as the runner gave it, or with what it said."""
    if words is None:
        return reason
    if standstill.code == ParkReason.SOURCE_CHANGED:
        return words  # It names the file, what is wrong with it and what to do.
    if standstill.code == ParkReason.NO_PROGRESS:
        return f"{reason}; it said: {words}"
    if standstill.code == ParkReason.SETTINGS_BROKEN:
        return f"{words}; {reason}"
    return reason


def _controls(run: SummaryRow, status: DisplayStatus) -> list[str]:
    controls = [*_CONTROLS.get(status, ())]
    if status in ENDED_STATUSES and run.open_turn:
        controls.append("cancel")
    if status is DisplayStatus.QUEUED and run.queue_status is QueueStatus.PARKED:
        controls.append("resume")
    if status in {DisplayStatus.RUNNING, DisplayStatus.WAITING} and run.request_kind is not None:
        controls.extend(_REQUEST_CONTROLS.get(run.request_kind, ()))
    if run.ambiguous:
        controls.append("review")
    return controls
