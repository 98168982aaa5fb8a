"""Reads a `pi-workflows.run-view.v1`: where the run stands and what a person should do."""

from typing import Final

from pi_workflows.cli.output import safe_text
from pi_workflows.cli.render import next_step, text_of
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import DisplayStatus, ParkReason

TERMINAL: Final = frozenset(
    {
        DisplayStatus.COMPLETED,
        DisplayStatus.FAILED,
        DisplayStatus.TIMED_OUT,
        DisplayStatus.CANCELLED,
    }
)
_NEEDS_SOMEBODY: Final = frozenset(
    {
        DisplayStatus.WAITING,
        DisplayStatus.PAUSED,
        DisplayStatus.AMBIGUOUS,
    }
)


def member(view: JsonObject, name: str) -> JsonObject:
    """Return an object member of a view; empty when it is absent."""
    value = view.get(name)
    return value if isinstance(value, dict) else {}


def status_of(view: JsonObject) -> str:
    """Return the display status; empty when the view has none."""
    return text_of(member(view, "display").get("status"))


def steps_of(view: JsonObject) -> list[JsonObject]:
    """Return the steps in the view's window, oldest first; at most the newest 64."""
    items = member(view, "steps").get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def last_step_error(view: JsonObject) -> str:
    """Return the newest step's error where its line shows all of it; empty otherwise."""
    steps = steps_of(view)
    error = steps[-1].get("error") if steps else None
    whole = isinstance(error, str) and len(error.strip().splitlines()) == 1
    return safe_text(error).strip() if isinstance(error, str) and whole else ""


def is_over(view: JsonObject) -> bool:
    """Say whether nothing more happens by itself: terminal, or it needs somebody."""
    status = status_of(view)
    return status in TERMINAL or status in _NEEDS_SOMEBODY or _is_parked(view)


def remark_of(view: JsonObject) -> str:
    """Return why a run that is over but not terminal stands, and the next command."""
    status = status_of(view)
    run_id = text_of(member(view, "manifest").get("runId"))
    reason = text_of(member(view, "display").get("reason"))
    because = f" ({reason})" if reason else ""
    if status == DisplayStatus.AMBIGUOUS:
        is_paused = member(view, "display").get("paused") is True
        standing = "paused and ambiguous" if is_paused else "ambiguous"
        return (
            f"{run_id} is {standing}: nobody knows whether {_ambiguous_effects(view)} happened, "
            f"and it is not tried again by itself. Look there, then: pi-workflows effects {run_id}"
            f"; give it up with: pi-workflows cancel {run_id}"
        )
    if status == DisplayStatus.WAITING:
        return f"{run_id} waits{because}. Come back with: pi-workflows watch {run_id}"
    if status == DisplayStatus.PAUSED:
        goes_on = next_step(member(view, "display")) or f"pi-workflows resume {run_id}"
        return f"{run_id} is paused; go on with: {goes_on}"
    if _is_parked(view):
        command = next_step(member(view, "display"))
        next_command = f"; next: {command}" if command else ""
        return f"{run_id} is parked: {reason.rstrip('.')}{next_command}"
    return ""


def _is_parked(view: JsonObject) -> bool:
    """A queued run with a reason is not started by itself, except after a server's handoff."""
    reason = member(view, "display").get("reason")
    return (
        status_of(view) == DisplayStatus.QUEUED
        and isinstance(reason, str)
        and reason != ParkReason.HANDOFF
    )


def _ambiguous_effects(view: JsonObject) -> str:
    effects = view.get("unresolvedEffects")
    names = [
        text_of(effect.get("effectType"))
        for effect in (effects if isinstance(effects, list) else [])
        if isinstance(effect, dict) and effect.get("status") == "ambiguous"
    ]
    return ", ".join(names) or "an effect"
