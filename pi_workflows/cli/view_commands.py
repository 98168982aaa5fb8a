"""Commands of one question each: `list`, `show`, `cancel`."""

from collections.abc import Iterator
from typing import Final

import click

from pi_workflows.cli import completion, output, render
from pi_workflows.cli.context import (
    RUN_METAVAR,
    client_of,
    debug_option,
    epilog,
    json_option,
    user_paths,
)
from pi_workflows.cli.updates import update_lines
from pi_workflows.cli.verdicts import cut_off_node, tell_ambiguous
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ExitCode
from pi_workflows.protocol.states import DisplayStatus

_PAGE_ITEMS_MAX: Final = 256


@click.command(
    "list",
    epilog=epilog(
        "pi-workflows list",
        "pi-workflows list --status failed --limit 5",
        "pi-workflows list --json | jq -r .runId",
    ),
)
@click.option(
    "--status",
    type=click.Choice([str(status) for status in DisplayStatus]),
    help="Only runs with this status.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many runs at most.",
)
@json_option("Print one run per line as JSON (JSON Lines).")
@debug_option
def list_runs(*, status: str | None, limit: int, as_json: bool) -> None:
    """List runs, newest first."""
    with client_of(user_paths()) as client:
        runs = _runs(client, status, limit)
        if as_json:
            for run in runs:
                output.print_json(run)
            return
        listed = list(runs)
        rows = [
            (
                render.text_of(run.get("runId")),
                render.shown_status(run),
                render.local_time(run.get("createdAt")),
                render.span(run.get("createdAt"), run.get("finishedAt")),
                render.text_of(run.get("steps")),
                render.workflow_name(run),
            )
            for run in listed
        ]
    if rows:
        headers = ("RUN", "STATUS", "CREATED", "TOOK", "STEPS", "WORKFLOW")
        output.print_text(render.table(headers, rows))
        _tell_next_commands(listed)
    else:
        output.tell("no runs yet: pi-workflows run FILE starts one" if not status else "no runs")


@click.command(epilog=epilog("pi-workflows show RUN", "pi-workflows show RUN --json | jq .steps"))
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.run_ids)
@json_option("Print the whole pi-workflows.run-state.v1 document.")
@debug_option
def show(*, run_id: str, as_json: bool) -> None:
    """Show one run: its status, its steps, its result or error."""
    with client_of(user_paths()) as client:
        state = client.run_state(run_id)
        waits = [] if as_json else _waits_for_a_place(client, state)
    if as_json:
        output.print_json(state)
    else:
        page = render.run_state(state, update_lines(state))
        output.print_text("\n".join([page, *waits]))


def _waits_for_a_place(client: BlockingClient, state: JsonObject) -> list[str]:
    """Say so if nothing but the number of runners keeps a run from being started."""
    display = state.get("display")
    if not isinstance(display, dict) or display.get("status") != DisplayStatus.QUEUED:
        return []
    if "reason" in display or "retryAt" in display:
        return []
    facts = client.call("server.status").receipt
    active, capacity = facts.get("activeRunners"), facts.get("capacity")
    if not isinstance(active, int) or not isinstance(capacity, int) or active < capacity:
        return []
    busy = "the one runner is" if capacity == 1 else f"all {capacity} runners are"
    return ["", f"it starts as soon as there is room: {busy} busy with other runs"]


@click.command(
    epilog=epilog("pi-workflows cancel RUN", "pi-workflows cancel RUN --reason 'wrong input'")
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.live_run_ids)
@click.option("--reason", help="Why; stored with the run.")
@json_option("Print the verdict and what was cut off.")
@debug_option
def cancel(*, run_id: str, reason: str | None, as_json: bool) -> int:
    """Cancel a run, wherever it is.

    Says whether the cancel won or the run had ended before, and in both cases which effects were
    left ambiguous: nobody knows whether they happened. Exit code 0 when the run is cancelled, 1
    when it had ended otherwise.
    """
    with client_of(user_paths()) as client:
        verdict = client.cancel(run_id, reason).receipt
    if as_json:
        output.print_json(verdict)
    else:
        _tell_verdict(run_id, verdict)
    return ExitCode.OK if verdict.get("status") == "cancelled" else ExitCode.FAILED


def _tell_next_commands(runs: list[JsonObject]) -> None:
    """Say of each run that needs somebody why it stands, and what to do next."""
    for run in runs:
        display = run.get("display")
        if isinstance(display, dict) and display.get("next") is not None:
            output.tell(
                f"{render.text_of(run.get('runId'))} stands still"
                f" ({render.text_of(display.get('code'))});"
                f" next: {render.next_step(display)}"
            )


def _runs(client: BlockingClient, status: str | None, limit: int) -> Iterator[JsonObject]:
    """Yield runs page by page, so that a closed pipe ends the reading too."""
    cursor: JsonValue = None
    left = limit
    while left > 0:
        payload: JsonObject = {"limit": min(left, _PAGE_ITEMS_MAX)}
        if status is not None:
            payload["status"] = status
        if cursor is not None:
            payload["cursor"] = cursor
        page = client.call("run.list", payload).receipt
        items = page.get("items")
        runs = (
            [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        )
        yield from runs[:left]
        left -= len(runs)
        cursor = page.get("nextCursor")
        if cursor is None:
            return


def _tell_verdict(run_id: str, verdict: JsonObject) -> None:
    if verdict.get("verdict") == "won":
        node = cut_off_node(verdict)
        cut = f'; node "{node}" was cut off' if node is not None else ""
        output.print_text(f"{run_id} is cancelled{cut}")
    else:
        output.print_text(f"{run_id} had ended before: {render.text_of(verdict.get('status'))}")
    tell_ambiguous(verdict)
