"""Commands that stop a run without ending it: `pause`."""

import click

from pi_workflows.cli import completion, output
from pi_workflows.cli.context import (
    RUN_METAVAR,
    client_of,
    debug_option,
    epilog,
    json_option,
    user_paths,
)
from pi_workflows.cli.verdicts import cut_off_node, is_unsure, tell_ambiguous
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ExitCode


@click.command(
    epilog=epilog("pi-workflows pause RUN", "pi-workflows pause RUN --json | jq .cutOff.nodeId")
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.live_run_ids)
@json_option("Print the verdict and what was cut off.")
@debug_option
def pause(*, run_id: str, as_json: bool) -> int:
    """Stop a run at once, until it is resumed.

    A node that works is stopped where it stands; when the run is resumed it runs again, unless
    nobody knows what it has done outside. Recorded steps stay. Works wherever the run is: also
    queued, between two tries, or parked. Exit code 0 also when it was paused before, 1 when it has
    ended.
    """
    with client_of(user_paths()) as client:
        verdict = client.pause(run_id).receipt
    if as_json:
        output.print_json(verdict)
    else:
        _tell_paused(run_id, verdict)
    return ExitCode.OK


def _tell_paused(run_id: str, verdict: JsonObject) -> None:
    if verdict.get("verdict") == "alreadyPaused":
        output.print_text(f"{run_id} was paused before")
    else:
        node = cut_off_node(verdict)
        cut = ""
        if node is not None:
            again = "" if is_unsure(verdict, node) else " and runs again"
            cut = f'; node "{node}" was cut off{again}'
        output.print_text(f"{run_id} is paused{cut}")
    if tell_ambiguous(verdict):
        output.tell(f"say what you found, then resume: pi-workflows effects {run_id}")
    else:
        output.tell(f"go on with: pi-workflows resume {run_id}")
