"""Commands about outside actions: which are open, and what became of one that nobody knows of."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from pi_workflows.cli import completion, output, render
from pi_workflows.cli.context import (
    client_of,
    debug_option,
    epilog,
    json_option,
    usage_problem,
    user_paths,
)
from pi_workflows.cli.overriding import override
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.protocol.canonical import CanonicalError, JsonObject, JsonValue, parse_json
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.states import TERMINAL_RUN_STATUSES, EffectStatus

_LIST: Final = "list"
_TWICE: Final = "if the action did happen, trying again makes it happen twice"
_VERBS: Final = ("applied", "rejected", "retry")
_HEADERS: Final = ("EFFECT", "STATUS", "TRIES", "SINCE", "RECOVERY", "TYPE", "NODE", "RUN")


class _EffectsGroup(click.Group):
    """`effects` and `effects RUN` list; the word `list` may be left out."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the word `list` where it was left out, help excepted."""
        helps = {"--help", *ctx.help_option_names}
        if not args or (args[0] not in self.commands and args[0] not in helps):
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


@click.group(
    "effects",
    cls=_EffectsGroup,
    epilog=epilog(
        "pi-workflows effects",
        "pi-workflows effects RUN",
        "pi-workflows effects resolve EFFECT --rejected --reason 'not in the outbox'",
    ),
)
def effects() -> None:
    """List open outside actions; settle those that nobody knows of.

    `pi-workflows effects [RUN]` is short for `pi-workflows effects list [RUN]`.
    """


@effects.command(
    _LIST,
    epilog=epilog(
        "pi-workflows effects list RUN --all",
        "pi-workflows effects --json | jq -r 'select(.status == \"ambiguous\").effectId'",
    ),
)
@click.argument("run_id", metavar="[RUN]", required=False, shell_complete=completion.run_ids)
@click.option("--all", "settled_too", is_flag=True, help="Also those that are over; needs RUN.")
@json_option("Print one effect per line as JSON (JSON Lines).")
@debug_option
def list_effects(*, run_id: str | None, settled_too: bool, as_json: bool) -> None:
    """List effects that are not settled, oldest first.

    Those of one run, or of all runs.
    """
    if settled_too and run_id is None:
        raise usage_problem("--all lists the effects of one run; name it")
    with client_of(user_paths()) as client:
        found = _effects(client, run_id, settled_too=settled_too)
        if as_json:
            for effect in found:
                output.print_json(effect)
            return
        listed = list(found)
    if not listed:
        output.tell("no effects" if settled_too else "no effect is open")
        return
    rows = [_row(effect) for effect in listed]
    output.print_text(render.table(_HEADERS, rows))
    ambiguous = [effect for effect in listed if effect.get("status") == EffectStatus.AMBIGUOUS]
    if ambiguous:
        ended = [effect.get("runStatus") in TERMINAL_RUN_STATUSES for effect in ambiguous]
        output.tell(
            "ambiguous: look there, then say what you found: pi-workflows effects resolve EFFECT "
            f"--applied|--rejected{'' if all(ended) else '|--retry'} --reason TEXT"
        )
        if any(ended) and not all(ended):
            output.tell("--retry is refused where the run has ended")


@effects.command(
    epilog=epilog(
        "pi-workflows effects resolve EFFECT --applied --output '{\"id\": 7}' "
        "--reason 'it is in the outbox'",
        "pi-workflows effects resolve EFFECT --rejected --reason 'not in the outbox'",
        "pi-workflows effects resolve EFFECT --retry --reason 'a second copy does no harm'",
    )
)
@click.argument("effect_id", metavar="EFFECT", shell_complete=completion.effect_ids)
@click.option("--applied", is_flag=True, help="It happened: its node ends ok with --output.")
@click.option("--rejected", is_flag=True, help="It did not happen: its node fails.")
@click.option("--retry", is_flag=True, help="Try it again; if it did happen, it happens twice.")
@click.option("--reason", metavar="TEXT", help="How you know; required, stored with the effect.")
@click.option(
    "--output",
    "output_text",
    metavar="JSON",
    help="With --applied: what its node would have returned; default null.",
)
@click.option("--yes", is_flag=True, help="With --retry: do not ask back.")
@json_option("Print the receipt: effectId, runId, verb, status, runStatus, goesOn, paused.")
@debug_option
def resolve(
    *,
    effect_id: str,
    applied: bool,
    rejected: bool,
    retry: bool,
    reason: str | None,
    output_text: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Say what became of an effect that is ambiguous.

    Exactly one of --applied, --rejected and --retry, with a reason. Its run goes on, unless it has
    ended or waits for something else: after --applied behind the node, after --rejected with the
    node failed, after --retry with the node again. An effect that can be looked for is looked for
    before it is tried again.
    """
    given = [
        verb for verb, chosen in zip(_VERBS, (applied, rejected, retry), strict=True) if chosen
    ]
    if len(given) != 1:
        raise usage_problem("say exactly one of --applied, --rejected and --retry")
    if reason is None or not reason.strip():
        raise usage_problem("say with --reason how you know; it is stored with the effect")
    payload: JsonObject = {"effectId": effect_id, "verb": given[0], "reason": reason}
    if output_text is not None:
        if not applied:
            raise usage_problem("--output goes with --applied only")
        payload["output"] = _parsed(output_text)
    asks_back = retry and not yes and _somebody_can_answer()
    if asks_back and not click.confirm(f"{_TWICE}. Try again?", err=True):
        output.tell("nothing was changed")
        return ExitCode.FAILED
    with client_of(user_paths()) as client:
        receipt = client.call("effect.resolve", payload).receipt
    if as_json:
        output.print_json(receipt)
    else:
        _tell(receipt)
    if receipt.get("runStatus") not in TERMINAL_RUN_STATUSES:
        _note(given[0], warned=asks_back, has_output=output_text is not None)
    return ExitCode.OK


def _parsed(text: str) -> JsonValue:
    try:
        return parse_json(text)
    except CanonicalError as error:
        cause = str(error).removeprefix("not JSON: ")
        hint = "a text needs its own quotes: --output '\"sent\"'"
        message = f"--output is not JSON: {cause}; {hint}"
        raise usage_problem(message, ErrorCode.NOT_JSON) from error


def _somebody_can_answer() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _effects(
    client: BlockingClient, run_id: str | None, *, settled_too: bool
) -> Iterator[JsonObject]:
    """Yield effects page by page, so that a closed pipe ends the reading too."""
    payload: JsonObject = {"all": settled_too}
    if run_id is not None:
        payload["runId"] = run_id
    while True:
        page = client.call("effect.list", payload).receipt
        items = page.get("items")
        yield from (
            (item for item in items if isinstance(item, dict)) if isinstance(items, list) else ()
        )
        cursor = page.get("nextCursor")
        if cursor is None:
            return
        payload = {**payload, "cursor": cursor}


def _row(effect: JsonObject) -> Sequence[str]:
    return (
        render.text_of(effect.get("effectId")),
        render.text_of(effect.get("status")),
        render.text_of(effect.get("attempts")),
        render.local_time(effect.get("since")),
        render.text_of(effect.get("recovery")),
        render.text_of(effect.get("effectType")),
        render.text_of(effect.get("nodeId")),
        render.text_of(effect.get("runId")),
    )


def _note(verb: str, *, warned: bool, has_output: bool) -> None:
    """Say what the word that was taken brings along, unless the question has said it."""
    if verb == "retry" and not warned:
        output.tell(f"note: {_TWICE}")
    if verb == "applied" and not has_output:
        output.tell("note: without --output its node ends with null as its output")


def _tell(receipt: JsonObject) -> None:
    run_id = render.text_of(receipt.get("runId"))
    status = render.text_of(receipt.get("status"))
    output.print_text(f"{render.text_of(receipt.get('effectId'))} is {status}")
    if receipt.get("goesOn") is True:
        output.tell(f"its run goes on: pi-workflows watch {run_id}")
    elif receipt.get("paused") is True:
        output.tell(f"its run is paused; next: pi-workflows resume {run_id}")
    else:
        output.tell(f"its run: pi-workflows show {run_id}")
