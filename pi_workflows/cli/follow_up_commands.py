"""Commands about follow-ups: prompts for work after the success of a run."""

import sys
from collections.abc import Iterator
from pathlib import Path
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
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.protocol.canonical import JsonObject

_SOURCE: Final = "cli"
_HEADERS: Final = ("ORDER", "STATE", "QUEUED", "BY", "PROMPT", "FOLLOW-UP")


@click.group(
    "follow-up",
    epilog=epilog(
        "pi-workflows follow-up add RUN 'Write the release note.'",
        "pi-workflows follow-up list RUN",
        "pi-workflows follow-up remove RUN ID",
    ),
)
def follow_up() -> None:
    """Queue work for after the success of a run."""


@follow_up.command(
    epilog=epilog(
        "pi-workflows follow-up add RUN 'Write the release note.'",
        "pi-workflows follow-up add RUN --file note.txt --request-id note",
        "git log -1 | pi-workflows follow-up add RUN --file -",
    )
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.live_run_ids)
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option("--file", "file_name", metavar="FILE", help="Read the prompt; - is standard input.")
@click.option(
    "--request-id", metavar="ID", help="Names it within the run: a repeat is the same follow-up."
)
@json_option("Print the receipt: runId, followUpId, order, state.")
@debug_option
def add(
    *,
    run_id: str,
    prompt: str | None,
    file_name: str | None,
    request_id: str | None,
    as_json: bool,
) -> None:
    """Queue a prompt behind those that the run has.

    The run has started and not ended; paused and parked ones take it too. It counts once the run
    has completed. A run that fails, times out or is cancelled takes its follow-ups with it.
    """
    if (prompt is None) == (file_name is None):
        raise usage_problem("say the prompt as an argument or with --file, and not both")
    text = prompt if file_name is None else _read(file_name)
    assert text is not None
    with client_of(user_paths()) as client:
        reply = client.queue_follow_up(run_id, text, request_id=request_id, source=_SOURCE)
    receipt = reply.receipt
    if as_json:
        output.print_json(receipt)
        return
    identity, order = (render.text_of(receipt.get(name)) for name in ("followUpId", "order"))
    if reply.adopted:
        state = render.text_of(receipt.get("state"))
        output.print_text(f"{identity} was queued before; it is {state}")
    else:
        output.print_text(f"{identity} is number {order} of {run_id}")
    output.tell(f"take it back with: pi-workflows follow-up remove {run_id} {identity}")


@follow_up.command(
    "list",
    epilog=epilog(
        "pi-workflows follow-up list RUN",
        "pi-workflows follow-up list RUN --json | jq -r 'select(.state == \"ready\").prompt'",
    ),
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.run_ids)
@json_option("Print one follow-up per line as JSON (JSON Lines), with its whole prompt.")
@debug_option
def list_follow_ups(*, run_id: str, as_json: bool) -> None:
    """List the follow-ups of a run in their order."""
    with client_of(user_paths()) as client:
        found = _items(client, run_id)
        if as_json:
            for item in found:
                output.print_json(item)
            return
        listed = list(found)
    if not listed:
        output.tell(f"no follow-ups: pi-workflows follow-up add {run_id} PROMPT queues one")
        return
    output.print_text(render.table(_HEADERS, [_row(item) for item in listed]))


@follow_up.command(
    epilog=epilog(
        "pi-workflows follow-up remove RUN ID",
        "pi-workflows follow-up remove RUN ID --reason 'done by hand'",
    )
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.run_ids)
@click.argument("follow_up_id", metavar="ID", shell_complete=completion.follow_up_ids)
@click.option("--reason", metavar="TEXT", help="Why; stored with the follow-up.")
@json_option("Print the receipt: runId, followUpId, order, state.")
@debug_option
def remove(*, run_id: str, follow_up_id: str, reason: str | None, as_json: bool) -> None:
    """Take a follow-up back that was not sent.

    Exit code 0 also when it was removed before, 1 when it was sent or the end of its run has
    cancelled it.
    """
    with client_of(user_paths()) as client:
        reply = client.remove_follow_up(run_id, follow_up_id, reason)
    if as_json:
        output.print_json(reply.receipt)
    else:
        before = " before" if reply.adopted else ""
        output.print_text(f"{follow_up_id} was removed{before}")


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).expanduser().read_bytes()
        return data.decode()
    except UnicodeDecodeError as error:
        source = "standard input" if name == "-" else name
        raise usage_problem(f"{source} is not UTF-8 text") from error
    except (OSError, RuntimeError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise usage_problem(f"cannot read the prompt from {name}: {reason}") from error


def _items(client: BlockingClient, run_id: str) -> Iterator[JsonObject]:
    """Yield follow-ups page by page, so that a closed pipe ends the reading too."""
    after: int | None = 0
    while after is not None:
        page = client.follow_ups(run_id, after=after)
        items, following = page.get("items"), page.get("next")
        yield from (
            (item for item in items if isinstance(item, dict)) if isinstance(items, list) else ()
        )
        after = following if isinstance(following, int) else None


def _row(item: JsonObject) -> tuple[str, ...]:
    return (
        render.text_of(item.get("order")),
        render.text_of(item.get("state")).replace("_", " "),
        render.local_time(item.get("createdAt")),
        render.text_of(item.get("source")),
        render.first_line(str(item.get("prompt", ""))),
        render.text_of(item.get("followUpId")),
    )
