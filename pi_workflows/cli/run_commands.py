"""Commands that start a run, let one go on, or stay with one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pi_workflows.cli import completion, output, render, views
from pi_workflows.cli.context import (
    RUN_METAVAR,
    client_of,
    debug_option,
    epilog,
    json_option,
    usage_problem,
    user_paths,
)
from pi_workflows.cli.run_input import read_input, reference_of
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.errors import ProtocolViolation
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.paths import StatePaths

if TYPE_CHECKING:
    from pi_workflows.cli.following import Ending
    from pi_workflows.cli.progress import Progress

_RESUMED: Final = {
    "resumable": "{run_id} goes on; come back with: pi-workflows watch {run_id}",
    "alreadyRunning": "{run_id} runs already; come back with: pi-workflows watch {run_id}",
}
_WHY: Final = ("code", "reason", "first", "next")
_RESUMED_ELSE: Final = "{run_id} waits for an answer; look with: pi-workflows show {run_id}"


@click.command(
    epilog=epilog(
        "pi-workflows run release_report.workflow.py",
        "pi-workflows run release_report --input '{\"target_commits\": 20}'",
        "pi-workflows run build.workflow.py --input @input.json --json | jq .finalOutput",
        "echo '[1, 2]' | pi-workflows run sum.workflow.py --input - --detach",
    )
)
@click.argument("workflow", metavar="FILE|NAME", shell_complete=completion.workflows)
@click.option(
    "--input",
    "input_text",
    metavar="JSON|@file|-",
    help="Input of the run: JSON text, @ and a file, or - for standard input; default null.",
)
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Folder the run works in and where NAME is looked up; default: this one.",
)
@click.option("--detach", is_flag=True, help="Return as soon as the run is accepted.")
@json_option("Print one document: runId, status, and at the end finalOutput or error.")
@debug_option
def run(
    *, workflow: str, input_text: str | None, project: Path, detach: bool, as_json: bool
) -> int:
    """Run a workflow file or a named workflow.

    A name is looked up among the workflows of the project, those of the user and those that come
    with the package. Shows progress until the run ends, then prints its final output. Ctrl-C
    detaches: the run goes on. Exit code 0 when the run completed (or was detached), 1 when it
    ended otherwise or needs somebody, 2 when the file or its input was refused.
    """
    paths = user_paths()
    payload = _start_payload(workflow, read_input(input_text), project)
    try:
        with client_of(paths) as client:
            started = client.call("run.start", payload).receipt
    except KeyboardInterrupt:
        output.tell("interrupted; whether it started shows: pi-workflows list")
        raise
    run_id = str(started.get("runId"))
    if detach:
        _print_detached(run_id, started, as_json=as_json)
        return ExitCode.OK
    return _attend(paths, run_id, started.get("status"), as_json=as_json)


@click.command(
    epilog=epilog(
        "pi-workflows resume RUN",
        "pi-workflows resume RUN --detach --json | jq -r .verdict",
    )
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.live_run_ids)
@click.option("--detach", is_flag=True, help="Return as soon as the run may go on.")
@json_option("Print one document: runId, status, and at the end finalOutput or error.")
@debug_option
def resume(*, run_id: str, detach: bool, as_json: bool) -> int:
    """Let a run go on that stands still, and stay with it.

    For a run that is parked: its runner kept dying, its source had changed and was restored, or
    it is held back between two tries. Steps that are recorded do not run again. A run that is
    queued or running is left as it is. Ctrl-C detaches. Exit codes are those of `run`.
    """
    paths = user_paths()
    with client_of(paths) as client:
        resumed = client.resume(run_id).receipt
    if not detach:
        return _attend(paths, run_id, resumed.get("status"), as_json=as_json)
    if as_json:
        output.print_json(resumed)
    else:
        output.tell(_RESUMED.get(str(resumed.get("verdict")), _RESUMED_ELSE).format(run_id=run_id))
    return ExitCode.OK


@click.command(
    epilog=epilog(
        "pi-workflows restart RUN",
        "pi-workflows restart RUN --revision 42 --detach --json | jq -r .runId",
    )
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.ended_run_ids)
@click.option(
    "--revision",
    type=click.IntRange(min=0),
    help="Refuse unless the run is at this revision (runRevision); default: as it now stands.",
)
@click.option("--detach", is_flag=True, help="Return as soon as the new run is accepted.")
@json_option("Print one document: runId, status, and at the end finalOutput or error.")
@debug_option
def restart(*, run_id: str, revision: int | None, detach: bool, as_json: bool) -> int:
    """Start a run that has ended once more, as a new run.

    It has the same workflow and the same input. Nothing else is taken over: no steps, no outputs,
    no settings. A run is restarted once; when it was restarted before, this stays with that
    restart. Ctrl-C detaches. Exit codes are those of `run`.
    """
    paths = user_paths()
    with client_of(paths) as client:
        seen = _revision_of(client, run_id) if revision is None else revision
        restarted = client.restart(run_id, seen)
    receipt = restarted.receipt
    child = str(receipt.get("runId"))
    how = "was restarted before" if restarted.adopted else f"is restarted at revision {seen}"
    if not as_json:
        output.tell(f"{run_id} {how}: {child}")
    if not detach:
        return _attend(paths, child, receipt.get("status"), as_json=as_json)
    if as_json:
        output.print_json(receipt)
    else:
        _print_detached(child, receipt, as_json=False)
    return ExitCode.OK


@click.command(
    epilog=epilog("pi-workflows watch RUN", "pi-workflows watch RUN --json | jq .display.status")
)
@click.argument("run_id", metavar=RUN_METAVAR, shell_complete=completion.run_ids)
@json_option("Print the run view at each change, one per line (JSON Lines).")
@debug_option
def watch(*, run_id: str, as_json: bool) -> int:
    """Stay with a run until it ends.

    Also ends when the run needs somebody, and says so. Prints the final output. Ctrl-C leaves
    the run alone. Exit codes are those of `run`.
    """
    paths = user_paths()
    with client_of(paths) as client:  # Starts the server if need be and refuses an unknown run.
        client.call("view.run.get", run_id=run_id)
    if not as_json:
        return _attend(paths, run_id, None, as_json=False)
    from pi_workflows.cli.progress import ViewLines  # noqa: PLC0415 - late, see `_follow`

    return _follow(paths, run_id, ViewLines()).exit_code


def _start_payload(workflow: str, value: JsonValue, project: Path) -> JsonObject:
    reference = reference_of(workflow)
    if reference != workflow or "/" in workflow:
        file = Path(reference)
        if file.is_dir():
            message = f"{workflow} is a folder; name a workflow file in it"
            raise usage_problem(message, ErrorCode.SOURCE_NOT_A_WORKFLOW)
        if not file.is_file():
            raise usage_problem(f"there is no workflow file {workflow}", ErrorCode.SOURCE_UNKNOWN)
    return {
        "projectPath": str(project.resolve()),
        "workflow": reference,
        "input": value,
        "originSessionId": None,
        "executionMode": "headless",
    }


def _revision_of(client: BlockingClient, run_id: str) -> int:
    """Return the run's revision as it now stands."""
    view = views.member(client.call("view.run.get", run_id=run_id).receipt, "view")
    revision = view.get("runRevision")
    if not isinstance(revision, int):
        raise ProtocolViolation("a run view has no runRevision")
    return revision


def _print_detached(run_id: str, started: JsonObject, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"runId": run_id, "status": started.get("status")})
    else:
        output.print_text(run_id)
        output.tell(f"it runs in the background; come back with: pi-workflows watch {run_id}")


def _attend(paths: StatePaths, run_id: str, status: JsonValue, *, as_json: bool) -> int:
    """Follow a run with progress for people and print what came out of it."""
    try:
        ending = _follow(paths, run_id, _progress(as_json=as_json))
    except KeyboardInterrupt:  # Before the live part was ready to take it as a detachment.
        ending = None
    if ending is None or ending.detached:
        known = ending.status if ending is not None and ending.status else status
        return _tell_detached(run_id, known, as_json=as_json)
    with client_of(paths) as client:
        document = _document(client, run_id, ending)
    if as_json:
        output.print_json(document)
    elif "finalOutput" in document:
        output.print_text(render.result(document["finalOutput"]))
    elif ending.remark:
        output.tell(ending.remark)
    elif isinstance(error := document.get("error"), str) and error.strip() != ending.shown_error:
        output.tell(f"{run_id} {document['status']}: {error}")
    elif ending.shown_error:
        output.tell(f"{run_id} {document['status']}; look with: pi-workflows show {run_id}")
    else:
        output.tell(f"{run_id} {document['status']}")
    return ending.exit_code


def _progress(*, as_json: bool) -> "Progress":
    """Choose how progress is shown; rich only where a person looks at a terminal."""
    # Late: these need trio or rich, which a detached or refused run never does.
    from pi_workflows.cli import progress  # noqa: PLC0415

    if as_json:
        return progress.Silent()
    if not sys.stderr.isatty():
        return progress.StepLines()
    from pi_workflows.cli.live import LivePage  # noqa: PLC0415

    return LivePage()


def _follow(paths: StatePaths, run_id: str, progress: "Progress") -> "Ending":
    from pi_workflows.cli.following import follow  # noqa: PLC0415 - brings trio

    return follow(paths, run_id, progress)


def _document(client: BlockingClient, run_id: str, ending: "Ending") -> JsonObject:
    state = client.run_state(run_id)
    document: JsonObject = {"runId": run_id, "status": ending.status}
    for name in ("finalOutput", "error"):
        if name in state:
            document[name] = state[name]
    if ending.remark:
        display = views.member(state, "display")
        document |= {name: display[name] for name in _WHY if name in display}
    return document


def _tell_detached(run_id: str, status: JsonValue, *, as_json: bool) -> int:
    if as_json:
        output.print_json({"runId": run_id, "status": status})
    output.tell(f"detached; {run_id} goes on. Come back with: pi-workflows watch {run_id}")
    return ExitCode.OK
