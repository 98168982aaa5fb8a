"""What a shell may offer behind Tab: runs, effects, follow-ups, workflows.

A key press must not wait, say anything, or start anything: without a server that answers at once
there is nothing to offer.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from pi_workflows.cli.context import user_paths
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import open_channel
from pi_workflows.client.errors import ClientError
from pi_workflows.protocol.builtins import BUILTINS
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.sources import BUILTIN_PREFIX

CONNECT_MS: Final = 300
REPLY_MS: Final = 700
OFFERED_MAX: Final = 100
"""Newest runs, oldest effects; a server is asked for no more."""

_TOLD_MAX: Final = 100
_SUFFIX: Final = ".workflow.py"
_WORKFLOWS: Final = (Path(".pi") / "workflows", Path(".pi") / "agent" / "workflows")
_UNSENT: Final = frozenset({"queued", "pending_presentation", "ready"})
_OVER: Final = frozenset({"completed", "failed", "timed_out", "cancelled"})


def run_ids(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest runs."""
    return _offered(_runs(), "runId", incomplete)


def live_run_ids(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest runs, less those that have ended."""
    live = (run for run in _runs() if _status(run) not in _OVER)
    return _offered(live, "runId", incomplete)


def ended_run_ids(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest runs that have ended."""
    ended = (run for run in _runs() if _status(run) in _OVER)
    return _offered(ended, "runId", incomplete)


def effect_ids(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer effects that are ambiguous: the others need nobody's word."""
    found = _asked("effect.list", {"limit": OFFERED_MAX})
    ambiguous = (effect for effect in found if effect.get("status") == "ambiguous")
    return _offered(ambiguous, "effectId", incomplete)


def follow_up_ids(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer follow-ups of the run that was named before and that are not over."""
    run_id = context.params.get("run_id")
    found = _asked("followUp.list", {}, run_id) if isinstance(run_id, str) else []
    unsent = (item for item in found if item.get("state") in _UNSENT)
    return _offered(unsent, "followUpId", incomplete)


def workflows(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the names of workflows of the project, the user and the package, and files."""
    project = context.params.get("project")
    places = (
        (project if isinstance(project, Path) else Path()) / _WORKFLOWS[0],
        Path.home() / _WORKFLOWS[1],
    )
    visible = [builtin.builtin_id for builtin in BUILTINS.values() if not builtin.hidden]
    builtins = {*visible, *(f"{BUILTIN_PREFIX}{name}" for name in visible)}
    names = {name for name in builtins if name.startswith(incomplete)} | {
        entry.name.removesuffix(_SUFFIX)
        for place in places
        for entry in place.glob(f"*{_SUFFIX}")
        if entry.name.startswith(incomplete)
    }
    return [
        *(CompletionItem(name, help="workflow") for name in sorted(names)[:OFFERED_MAX]),
        CompletionItem(incomplete, type="file"),
    ]


def _runs() -> list[JsonObject]:
    return _asked("run.list", {"limit": OFFERED_MAX})


def _asked(operation: str, payload: JsonObject, run_id: str | None = None) -> list[JsonObject]:
    """Return the items of a list; none when a server does not give them at once."""
    try:
        paths = user_paths()
        with BlockingClient(lambda: open_channel(paths.socket, CONNECT_MS)) as client:
            reply = client.call(operation, payload, run_id=run_id, reply_ms=REPLY_MS)
    except (ClientError, OSError):
        return []
    items = reply.receipt.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _offered(items: Iterable[JsonObject], identity: str, incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(text, help=_told(item))
        for item in items
        if isinstance(text := item.get(identity), str) and text.startswith(incomplete)
    ]


def _told(item: JsonObject) -> str:
    """Return what a shell with room for it shows beside an id."""
    what = item.get("workflowName", item.get("effectType", item.get("prompt")))
    words = " ".join(str(part) for part in (_status(item), what) if part is not None)
    return " ".join(words.split())[:_TOLD_MAX]


def _status(item: JsonObject) -> object:
    display = item.get("display")
    if isinstance(display, dict):
        return display.get("status")
    return item.get("status", item.get("state"))
