"""Commands about the stored state: `state status`, `state verify`."""

import click

from pi_workflows.cli import output, render, status_pages
from pi_workflows.cli.context import client_of, debug_option, epilog, json_option, user_paths
from pi_workflows.protocol.errors import ExitCode


@click.group(epilog=epilog("pi-workflows state status", "pi-workflows state verify --json"))
def state() -> None:
    """Look at the database of all runs.

    Nothing here repairs or changes anything, or prints what a run worked on.
    """


@state.command(epilog=epilog("pi-workflows state status --json | jq .counts"))
@json_option("Print the counts as one document.")
@debug_option
def status(*, as_json: bool) -> None:
    """Show size, counts and what is unsettled."""
    with client_of(user_paths()) as client:
        facts = client.call("state.status", reply_ms=None).receipt
    if as_json:
        output.print_json(facts)
    else:
        output.print_text(status_pages.state_page(facts))


@state.command(epilog=epilog("pi-workflows state verify && echo sound"))
@json_option("Print the findings as one document with ok.")
@debug_option
def verify(*, as_json: bool) -> int:
    """Check schema, integrity, foreign keys and every invariant.

    Exit code 0 only if all of it holds, else 1.
    """
    with client_of(user_paths()) as client:
        findings = client.call("state.verify", reply_ms=None).receipt
    sound = findings.get("ok") is True
    if as_json:
        output.print_json(findings)
    else:
        violations = findings.get("violations")
        for violation in violations if isinstance(violations, list) else []:
            output.print_text(render.text_of(violation))
        output.print_text("the state is sound" if sound else "the state is not sound")
    return ExitCode.OK if sound else ExitCode.FAILED
