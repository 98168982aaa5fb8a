"""A shell node: its function says which command, the runner runs it and keeps a receipt."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import NodeDefinition, ShellOptions
from pi_workflows.authoring.shell import Command, ShellResult
from pi_workflows.authoring.updates import Update
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.messages import CallResult, bounded_text
from pi_workflows.runner.nodes.callbacks import CodeCancelled, invoke
from pi_workflows.runner.nodes.command import (
    EndedCommand,
    Limits,
    run_command,
    working_directory,
)
from pi_workflows.runner.nodes.command_words import how_it_ended, not_started
from pi_workflows.runner.nodes.lines import LineReader
from pi_workflows.runner.shell_groups import ShellGroups

_RECEIPT_TEXT_CHARS: Final = 1_000
_RECEIPT_ARGS: Final = 16


def run_shell(
    node: NodeDefinition,
    context: Ctx[Any],
    cancellation: Cancellation,
    *,
    groups: ShellGroups,
    term_grace_ms: int,
    describe: Callable[[BaseException], str],
    publish: Callable[[Update], None] | None = None,
) -> CallResult:
    """Ask the node for its command, run it, and parse what it printed.

    Args:
        node: a shell node.
        context: what its function gets.
        cancellation: ends the command.
        groups: where the command's process group is entered.
        term_grace_ms: from SIGTERM to SIGKILL.
        describe: tells an exception of author code; the receipt must survive one of `parse`.
        publish: takes the updates that the node's line parser finds; None looks for none.

    Returns:
        `failed` with a receipt for a command that could not start, ended by a signal, exited
        with another code than 0 (unless allowed), took longer than its own timeout, was ended for
        a line that UTF-8, the line parser or the server refuses, or whose output `parse` or the
        declared type refuses.
        `timed_out` if cancelled. The receipt of a command that did not end `ok` has the last
        characters of what it printed.

    Raises:
        CodeCancelled: cancelled before there was a command.
        BaseException: from the node's function.
    """
    options = node.shell
    assert options is not None
    command = invoke(node.fn, context, is_async=node.is_async, cancellation=cancellation)
    if not isinstance(command, Command):
        raise TypeError(f'node "{node.node_id}" returns a Command, not {type(command).__name__}')
    if cancellation.is_cancelled():
        raise CodeCancelled
    started = time.monotonic()
    limits = Limits(options.max_output_chars, term_grace_ms, command.timeout_ms)
    try:
        ended = run_command(command, limits, groups, cancellation, _lines(options, publish))
    except (OSError, ValueError) as error:
        receipt = _receipt(command, round((time.monotonic() - started) * 1000))
        return _failed(not_started(command, error), receipt)
    result = ended.result
    receipt = _receipt(command, result.duration_ms) | _ended(result)
    if cancellation.is_cancelled():
        receipt |= _tails(ended)
        return CallResult(outcome=StepOutcome.TIMED_OUT, receipt=receipt)
    try:
        output = _output(node, options, ended)
    except _EndedBadly as bad:
        return _failed(how_it_ended(command, bad.ended), receipt | _tails(ended))
    except BaseException as error:  # noqa: BLE001 - both parsers are foreign code
        return _refused(describe(error), receipt | _tails(ended), ended)
    return CallResult(outcome=StepOutcome.OK, output=output, receipt=receipt)


class _EndedBadly(Exception):
    """The command took too long, ended by a signal, or with a code that is not allowed."""

    def __init__(self, ended: EndedCommand) -> None:
        self.ended = ended


def _lines(options: ShellOptions, publish: Callable[[Update], None] | None) -> LineReader | None:
    if options.updates is None or publish is None:
        return None
    return LineReader(options.updates, publish)


def _output(node: NodeDefinition, options: ShellOptions, ended: EndedCommand) -> JsonValue:
    result = ended.result
    if ended.failure is not None:
        raise ended.failure
    badly = result.exit_code != 0 and not options.allow_nonzero_exit
    if badly or ended.timed_out:
        raise _EndedBadly(ended)
    value = result if options.parse is None else options.parse(result)
    return node.codec.dump(value, where=f'node "{node.node_id}" output')


def _failed(text: str, receipt: JsonObject) -> CallResult:
    return CallResult(outcome=StepOutcome.FAILED, error=bounded_text(text), receipt=receipt)


def _refused(text: str, receipt: JsonObject, ended: EndedCommand) -> CallResult:
    """Return the end of a command that did its work, or was killed over a line on its way.

    No retry repeats either: the one is done, of the other nobody knows.
    """
    done = ended.failure is None
    return replace(_failed(text, receipt), returned=done, final=not done)


def _receipt(command: Command, duration_ms: int) -> JsonObject:
    """Return the bounded record of a command; long arguments are cut and marked."""
    receipt: JsonObject = {
        "actionType": "shell",
        "command": bounded_text(command.command, _RECEIPT_TEXT_CHARS),
        "args": [bounded_text(arg, _RECEIPT_TEXT_CHARS) for arg in command.args[:_RECEIPT_ARGS]],
        "cwd": bounded_text(working_directory(command), _RECEIPT_TEXT_CHARS),
        "exitCode": None,
        "signal": None,
        "durationMs": duration_ms,
    }
    if len(command.args) > _RECEIPT_ARGS:
        receipt["argsTruncated"] = True
    return receipt


def _ended(result: ShellResult) -> JsonObject:
    """Return how the command ended; what was cut is named only when it was."""
    facts: JsonObject = {"exitCode": result.exit_code, "signal": result.signal}
    if result.stdout_truncated:
        facts["stdoutTruncated"] = True
    if result.stderr_truncated:
        facts["stderrTruncated"] = True
    return facts


def _tails(ended: EndedCommand) -> JsonObject:
    """Return the last characters of each stream that has any, for whoever looks for the cause."""
    tails = {"stdoutTail": ended.stdout_tail, "stderrTail": ended.stderr_tail}
    return {name: tail for name, tail in tails.items() if tail}
