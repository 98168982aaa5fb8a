"""Commands about the settings of a run: what they are, change them, who has changed them."""

from collections.abc import Sequence
from typing import Final

import click

from pi_workflows.cli import completion, output, render
from pi_workflows.cli.context import (
    RUN_METAVAR,
    client_of,
    debug_option,
    epilog,
    json_option,
    usage_problem,
    user_paths,
)
from pi_workflows.cli.run_input import read_input, require_numbers
from pi_workflows.protocol.canonical import (
    CanonicalError,
    JsonObject,
    JsonValue,
    canonical_text,
    parse_json,
)
from pi_workflows.protocol.errors import ErrorCode

_SOURCE: Final = "cli"
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_HEADERS: Final = ("CHANGE", "WHEN", "WHO", "FROM", "PATCH")


@click.group(
    epilog=epilog(
        "pi-workflows settings show RUN",
        "pi-workflows settings change RUN /lane=careful",
        "pi-workflows settings history RUN",
    )
)
def settings() -> None:
    """Look at the settings of a run; change them while it goes on."""


@settings.command(
    epilog=epilog(
        "pi-workflows settings show RUN",
        "pi-workflows settings show RUN --json | jq .settings",
    )
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.run_ids)
@click.option("--scope", metavar="ID", help="Only these settings; all of the run's when unsaid.")
@json_option("Print one scope per line as JSON (JSON Lines).")
@debug_option
def show(*, run_id: str, scope: str | None, as_json: bool) -> None:
    """Show the settings of a run and of what it includes.

    Each invocation of an included workflow has its own; the newest is last. All of them are shown
    to you, whatever their rules let patches read.
    """
    with client_of(user_paths()) as client:
        found = client.settings(run_id, scope)
    if as_json:
        for item in found:
            output.print_json(item)
        return
    if not found:
        output.tell(f"the workflow of {run_id} declares no settings")
        return
    for item in found:
        number = render.text_of(item.get("changeNumber"))
        output.print_text(f"{render.text_of(item.get('scopeId'))}  change {number}")
        output.print_text(f"  {canonical_text(item.get('settings'))}")


@settings.command(
    epilog=epilog(
        "pi-workflows settings change RUN /lane=careful /limits/cpu=2",
        "pi-workflows settings change RUN --patch "
        '\'[{"op": "add", "path": "/notes/-", "value": "slower"}]\' --expect 3',
        "pi-workflows settings change RUN --patch @patch.json --scope RUN:fix:2",
    )
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.live_run_ids)
@click.argument("assignments", metavar="[ASSIGNMENT]...", nargs=-1)
@click.option(
    "--patch",
    "patch_text",
    metavar="JSON",
    help="Operations of RFC 6902: JSON text, @FILE, or - for standard input.",
)
@click.option("--scope", metavar="ID", help="Whose settings; the run's own when unsaid.")
@click.option(
    "--expect",
    type=click.IntRange(min=0),
    metavar="N",
    help="Refuse unless the settings are at change N; the newest are taken when unsaid.",
)
@json_option("Print the receipt: runId, scopeId, changeNumber, adopted.")
@debug_option
def change(
    *,
    run_id: str,
    assignments: tuple[str, ...],
    patch_text: str | None,
    scope: str | None,
    expect: int | None,
    as_json: bool,
) -> None:
    """Change settings of a run that goes on; a paused one's too.

    An ASSIGNMENT is POINTER=VALUE: it sets what the JSON Pointer names; VALUE is JSON, or else a
    text. Nodes that start from now on see the change; one at work keeps its copy, and only a
    settings route runs again. The workflow's rules decide what you may change; you are `human`.
    """
    patch = _patch(assignments, patch_text)
    with client_of(user_paths()) as client:
        receipt = client.change_settings(
            run_id, patch, scope_id=scope, expected_change_number=expect, source=_SOURCE
        ).receipt
    if as_json:
        output.print_json(receipt)
        return
    scope_id = render.text_of(receipt.get("scopeId"))
    number = render.text_of(receipt.get("changeNumber"))
    output.print_text(f"change {number} of {scope_id}")


@settings.command(
    epilog=epilog(
        "pi-workflows settings history RUN",
        "pi-workflows settings history RUN --json | jq .patch",
    )
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.run_ids)
@click.option("--scope", metavar="ID", help="Whose settings; the run's own when unsaid.")
@json_option("Print one change per line as JSON (JSON Lines).")
@debug_option
def history(*, run_id: str, scope: str | None, as_json: bool) -> None:
    """List the changes of settings, oldest first."""
    with client_of(user_paths()) as client:
        found = client.settings_history(run_id, scope)
    if as_json:
        for item in found:
            output.print_json(item)
        return
    if not found:
        output.tell("nobody has changed these settings")
        return
    output.print_text(render.table(_HEADERS, [_row(item) for item in found]))


def _row(item: JsonObject) -> Sequence[str]:
    return (
        render.text_of(item.get("changeNumber")),
        render.local_time(item.get("acceptedAt")),
        render.text_of(item.get("actor")),
        render.text_of(item.get("source")),
        _told(item.get("patch")),
    )


def _told(patch: JsonValue) -> str:
    """Return a patch in one line: `replace /lane "careful"`."""
    operations = patch if isinstance(patch, list) else []
    told = []
    for operation in operations:
        if isinstance(operation, dict):
            parts = [render.text_of(operation.get("op"))]
            parts += [
                render.text_of(operation[name]) for name in ("from", "path") if name in operation
            ]
            if "value" in operation:
                parts.append(canonical_text(operation["value"]))
            told.append(" ".join(parts))
    return "; ".join(told)


def _patch(assignments: Sequence[str], patch_text: str | None) -> list[JsonObject]:
    if patch_text is None:
        if not assignments:
            raise usage_problem("say what to change: POINTER=VALUE, or --patch JSON")
        return [_assignment(text) for text in assignments]
    if assignments:
        raise usage_problem("say it with POINTER=VALUE or with --patch, not with both")
    patch = read_input(patch_text, option="--patch")
    if not isinstance(patch, list) or not all(isinstance(item, dict) for item in patch):
        text = "--patch is a list of operations (RFC 6902)"
        raise usage_problem(text, ErrorCode.SETTINGS_PATCH_INVALID)
    return [item for item in patch if isinstance(item, dict)]


def _assignment(text: str) -> JsonObject:
    pointer, equals, value = text.partition("=")
    if not equals or not (pointer == "" or pointer.startswith("/")):
        raise usage_problem('write POINTER=VALUE, and begin the pointer with "/": /lane=careful')
    if value in _NO_NUMBERS:
        raise usage_problem(
            f"{pointer}: JSON has no number {value}; a text needs its own quotes: "
            f"'{pointer}=\"{value}\"'"
        )
    try:
        parsed: JsonValue = parse_json(value)
    except CanonicalError:
        parsed = value
    require_numbers(parsed, pointer or "the whole")
    return {"op": "add", "path": pointer, "value": parsed}
