"""Commands about the server itself: `server run`, `start`, `status`, `stop`."""

import os
import sys
from typing import Final

import click

from pi_workflows.cli import output, status_pages
from pi_workflows.cli.context import (
    client_of,
    connected_client_of,
    debug_option,
    epilog,
    json_option,
    user_paths,
)
from pi_workflows.client.errors import ClientError, Refused, Unavailable, VersionsDiffer
from pi_workflows.client.holder import await_end, end_holder, read_holder
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.states import CommandOutcome
from pi_workflows.server_process import serve

STOP_MS: Final = 30_000
"""How long `server stop` waits for the process to end after it agreed."""

LOST_MS: Final = 10_000
"""How long a server that does not answer may take to end by itself, before it is ended."""


@click.group(epilog=epilog("pi-workflows server status", "pi-workflows server stop"))
def server() -> None:
    """Run, start, ask or stop the server.

    The other commands start it on demand, so none of this is needed in daily use.
    """


@server.command(
    epilog=epilog("pi-workflows server run", "pi-workflows server run --idle-exit 60000")
)
@click.option(
    "--idle-exit",
    "idle_exit_ms",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="MS",
    help="End after so many milliseconds without work or clients; 0 never does.",
)
@json_option("Print an error at start as JSON.")
@debug_option
def run(*, idle_exit_ms: int, as_json: bool) -> int:
    """Run the server in this terminal until it is told to stop.

    Exit code 4 when another server already runs, 5 when the stored state is incompatible. This is
    the command for a service manager; Ctrl-C and SIGTERM park the runs and end it. Prints
    nothing but a reason for its end, and on a terminal when it serves and when it stops.
    """
    return serve(
        user_paths(),
        idle_exit_ms=idle_exit_ms or None,
        report=output.print_error if as_json else None,
        announce=output.tell if sys.stderr.isatty() else None,
    )


@server.command(epilog=epilog("pi-workflows server start --json | jq .pid"))
@json_option("Print the server's status once it is ready.")
@debug_option
def start(*, as_json: bool) -> None:
    """Start the server in the background.

    Returns when it is ready; that it already runs is fine.
    """
    with client_of(user_paths()) as client:
        facts = client.call("server.status").receipt
    if as_json:
        output.print_json(facts)
    else:
        output.print_text(f"the server runs, PID {facts.get('pid')}")


@server.command(epilog=epilog("pi-workflows server status --json | jq .epoch"))
@json_option("Print the status as one document with pid and epoch.")
@debug_option
def status(*, as_json: bool) -> None:
    """Ask the running server how it is.

    Starts none: exit code 3 when none answers.
    """
    with connected_client_of(user_paths()) as client:
        facts = client.call("server.status").receipt
    if as_json:
        output.print_json(facts)
    else:
        output.print_text(status_pages.server_page(facts))


@server.command(epilog=epilog("pi-workflows server stop && pi-workflows server start"))
@json_option("Print {stopping, stopped}.")
@debug_option
def stop(*, as_json: bool) -> int:
    """Stop the server and wait for its end.

    Its runs are parked and go on with the next server. A server of another package version does
    not understand the question, one that hangs does not answer it, and one that has as many
    clients as it serves does not hear it; their exact process is ended instead (SIGTERM, five
    seconds, SIGKILL). That none runs is no error.
    """
    paths = user_paths()
    answer = _stop(paths)
    if as_json:
        output.print_json(answer)
    elif not answer["stopping"]:
        output.print_text("no server runs")
    else:
        output.print_text("the server has stopped" if answer["stopped"] else "it is stopping")
    return ExitCode.FAILED if answer["stopping"] and not answer["stopped"] else ExitCode.OK


def _stop(paths: StatePaths) -> JsonObject:
    holder = read_holder(paths)
    descriptor = None if holder is None else holder.open()
    try:
        return _ask_to_stop(paths, descriptor)
    except VersionsDiffer as error:
        if end_holder(paths):
            return {"stopping": True, "stopped": True}
        raise ClientError(
            f"{error.message}; its process could not be proven, end it by hand",
            code=ErrorCode.VERSION_MISMATCH,
            exit_code=ExitCode.UNAVAILABLE,
        ) from error
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _ask_to_stop(paths: StatePaths, descriptor: int | None) -> JsonObject:
    """Ask, then wait for the process of the pidfd; None means that no process could be proven."""
    try:
        with connected_client_of(paths) as client:
            client.call("server.stop")
    except Unavailable:
        if descriptor is None:
            return {"stopping": False, "stopped": False}
        # It may be about to end. One that stays and says nothing is of no use to anybody.
        if not await_end(descriptor, LOST_MS) and not end_holder(paths):
            raise
        return {"stopping": True, "stopped": True}
    except Refused as error:
        if error.code == ErrorCode.LIMIT_REACHED:  # The question was not even heard.
            if not end_holder(paths):
                raise
            return {"stopping": True, "stopped": True}
        if error.outcome is not CommandOutcome.UNAVAILABLE:
            raise  # Being asked twice is fine; every other no is not.
    return {"stopping": True, "stopped": descriptor is None or await_end(descriptor, STOP_MS)}
