"""Shell nodes with real processes."""

import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pi_workflows.authoring import Command, Ctx, Definition, ShellResult, Workflow, idempotent
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.runner.cancellation import Cancellation, CancelReason
from pi_workflows.runner.nodes.command import TERM_GRACE_MS, Limits, run_command
from pi_workflows.runner.shell_groups import ShellGroups

if TYPE_CHECKING:
    from tests.runner.conftest import Player, ScriptedServer

BOUND_MS = 120_000
LIMITS = Limits(max_output_chars=1_000)


def running(
    command: Command,
    *,
    parse: Callable[[ShellResult], Any] | None = None,
    allow_nonzero_exit: bool = False,
    max_output_chars: int = 1_000_000,
) -> Definition:
    wf = Workflow("shell")

    def node(_ctx: Ctx[Any]) -> Command:
        return command

    effect = idempotent("shell.run")
    if parse is None:
        handle: Any = wf.shell(
            effect=effect,
            allow_nonzero_exit=allow_nonzero_exit,
            max_output_chars=max_output_chars,
        )(node)
    else:
        handle = wf.shell(effect=effect, parse=parse, max_output_chars=max_output_chars)(node)
    return wf.build(start=handle)


def script(text: str, *arguments: str) -> Command:
    return Command(command=text, args=["sh", *arguments], shell=True)  # noqa: S604 - that is meant


@pytest.fixture
def step(server: "ScriptedServer", player: "type[Player]") -> Callable[[Definition], JsonObject]:
    def run(definition: Definition) -> JsonObject:
        player(definition, server).play()
        return server.steps[0]

    return run


def test_a_command_gets_arguments_environment_and_standard_input(
    step: Callable[[Definition], JsonObject],
) -> None:
    command = Command(
        command=sys.executable,
        args=[
            "-c",
            "import os,sys; print(sys.argv[1], os.environ['LENT'], sys.stdin.read())",
            "a b",
        ],
        env={"LENT": "yes"},
        stdin="héllo\n" * 10_000,
    )

    def parse(result: ShellResult) -> str:
        return result.stdout.strip()

    recorded = step(running(command, parse=parse))
    assert recorded["output"] == ("a b yes " + "héllo\n" * 10_000).strip()
    receipt = cast("JsonObject", recorded["receipt"])
    assert receipt["actionType"] == "shell"
    assert receipt["exitCode"] == 0
    assert receipt["signal"] is None
    assert receipt["cwd"] == str(Path.cwd())


def test_a_command_that_reads_none_of_its_input_is_no_failure(
    step: Callable[[Definition], JsonObject],
) -> None:
    command = Command(command="true", stdin="x" * 1_000_000)
    assert step(running(command))["outcome"] == "ok"


def test_a_nonzero_exit_fails_with_a_receipt(step: Callable[[Definition], JsonObject]) -> None:
    """Case: B27."""
    recorded = step(running(script("echo first >&2; echo broken >&2; exit 3")))
    assert recorded["outcome"] == "failed"
    assert str(recorded["error"]).endswith("exited with code 3: broken")
    receipt = cast("JsonObject", recorded["receipt"])
    assert (receipt["exitCode"], receipt["stderrTail"]) == (3, "first\nbroken\n")
    assert "stdoutTail" not in receipt


def test_a_failed_commands_receipt_has_the_end_of_what_it_printed_even_where_that_was_cut(
    step: Callable[[Definition], JsonObject],
) -> None:
    printing = "yes x | head -c 20000; yes y | head -c 20000 >&2; echo last >&2; exit 1"
    recorded = step(running(script(printing), max_output_chars=100))
    receipt = cast("JsonObject", recorded["receipt"])
    assert str(recorded["error"]).endswith("exited with code 1: last")
    assert (receipt["stdoutTruncated"], receipt["stderrTruncated"]) == (True, True)
    assert receipt["stdoutTail"] == "x\n" * 2_000
    assert receipt["stderrTail"] == ("y\n" * 2_000 + "last\n")[-4_000:]


def test_a_receipt_of_a_command_that_worked_has_no_output_and_says_only_what_was_cut(
    step: Callable[[Definition], JsonObject],
) -> None:
    command = script("echo some >&2; yes | head -c 300")
    receipt = cast("JsonObject", step(running(command, max_output_chars=100))["receipt"])
    assert receipt["stdoutTruncated"] is True
    assert {"stderrTruncated", "stdoutTail", "stderrTail"}.isdisjoint(receipt)


def test_parse_sees_the_cut_text_with_its_mark_and_that_it_was_cut(
    step: Callable[[Definition], JsonObject],
) -> None:
    def parse(result: ShellResult) -> list[object]:
        return [result.stdout, result.stdout_truncated]

    command = script("yes | head -c 300")
    recorded = step(running(command, parse=parse, max_output_chars=4))
    assert recorded["output"] == ["y\ny\n\n… (cut after 4 characters)", True]


def test_a_signal_fails_with_a_receipt(step: Callable[[Definition], JsonObject]) -> None:
    recorded = step(running(script("kill -9 $$")))
    assert recorded["outcome"] == "failed"
    assert "SIGKILL" in str(recorded["error"])
    receipt = cast("JsonObject", recorded["receipt"])
    assert (receipt["exitCode"], receipt["signal"]) == (None, "SIGKILL")


def test_an_allowed_nonzero_exit_passes(step: Callable[[Definition], JsonObject]) -> None:
    """Case: B27."""
    recorded = step(running(script("echo out; exit 3"), allow_nonzero_exit=True))
    assert recorded["outcome"] == "ok"
    output = cast("JsonObject", recorded["output"])
    assert (output["stdout"], output["exitCode"]) == ("out\n", 3)


def test_a_missing_folder_is_named_and_not_taken_for_a_missing_program(
    step: Callable[[Definition], JsonObject], tmp_path: Path
) -> None:
    recorded = step(running(Command(command="pwd", cwd=tmp_path / "absent")))
    assert recorded["error"] == (
        f'command "pwd" could not be started: there is no folder {tmp_path}/absent'
    )


def test_a_missing_executable_fails_with_a_receipt(
    step: Callable[[Definition], JsonObject],
) -> None:
    """Case: B27."""
    recorded = step(running(Command(command="no-such-program-here", args=["x"])))
    assert recorded["outcome"] == "failed"
    assert "could not be started: No such file or directory" in str(recorded["error"])
    receipt = cast("JsonObject", recorded["receipt"])
    assert (receipt["command"], receipt["args"]) == ("no-such-program-here", ["x"])
    assert receipt["exitCode"] is None


def test_output_over_the_cap_is_cut_and_flagged_and_still_drained(
    step: Callable[[Definition], JsonObject],
) -> None:
    """Case: B28."""
    command = script("yes | head -c 300000; printf short >&2")
    output = cast("JsonObject", step(running(command, max_output_chars=100))["output"])
    assert output["stdout"] == "y\n" * 50 + "\n… (cut after 100 characters)"
    assert output["stdoutTruncated"] is True
    assert (output["stderr"], output["stderrTruncated"]) == ("short", False)


@pytest.mark.parametrize(
    ("printed", "text"),
    [(r"a\377b", "a\ufffdb"), (r"\303", "\ufffd"), (r"\360\237\230\200" * 3, "😀😀😀")],
)
def test_bytes_that_are_no_text_are_replaced(
    printed: str, text: str, step: Callable[[Definition], JsonObject]
) -> None:
    output = cast("JsonObject", step(running(script(f"printf '{printed}'")))["output"])
    assert output["stdout"] == text


def test_a_cut_counts_utf16_units_and_splits_no_character(
    step: Callable[[Definition], JsonObject],
) -> None:
    command = Command(command="printf", args=["😀😀😀"])
    output = cast("JsonObject", step(running(command, max_output_chars=3))["output"])
    assert str(output["stdout"]).startswith("😀\n…")


def test_a_failing_parse_keeps_the_receipt_and_names_its_line(
    step: Callable[[Definition], JsonObject],
) -> None:
    def parse(_result: ShellResult) -> int:
        raise ValueError("no number here")

    recorded = step(running(Command(command="true"), parse=parse))
    assert recorded["outcome"] == "failed"
    assert str(recorded["error"]).startswith("ValueError: no number here (test_shell.py:")
    assert cast("JsonObject", recorded["receipt"])["exitCode"] == 0


def test_a_node_that_returns_no_command_fails(step: Callable[[Definition], JsonObject]) -> None:
    recorded = step(running(cast("Command", "ls")))
    assert "returns a Command, not str" in str(recorded["error"])


def test_a_process_left_in_the_group_ends_with_its_command() -> None:
    """Even one that holds no output open."""
    command = script("sleep 600 </dev/null >/dev/null 2>&1 & echo $!")
    result = run_command(command, LIMITS, ShellGroups(), Cancellation()).result
    assert result.exit_code == 0
    assert_gone(int(result.stdout))


def test_a_cancelled_group_gets_sigterm_first(tmp_path: Path) -> None:
    """Case: B29."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = script(
        "trap 'echo bye; exit 7' TERM; echo up >\"$1\"; while :; do sleep 0.01; done", str(ready)
    )
    cancellation = Cancellation()
    heard: list[str] = []
    with when_ready(ready, heard, cancellation):
        result = run_command(command, Limits(1_000, BOUND_MS), ShellGroups(), cancellation).result
    assert (result.exit_code, result.stdout) == (7, "bye\n")


def test_a_group_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    """The grace is one second in the product; nothing of the group survives.

    Case: B29.
    """
    assert TERM_GRACE_MS == 1_000
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = script("trap '' TERM; sleep 600 & echo $! >\"$1\"; wait", str(ready))
    cancellation = Cancellation()
    heard: list[str] = []
    with when_ready(ready, heard, cancellation):
        result = run_command(command, Limits(1_000, 50), ShellGroups(), cancellation).result
    assert (result.exit_code, result.signal) == (None, "SIGKILL")
    assert_gone(int(heard[0]))


def test_a_command_that_takes_longer_than_its_own_timeout_fails_whatever_exit_is_allowed(
    step: Callable[[Definition], JsonObject],
) -> None:
    command = Command("sh", ["-c", "echo begun; exec sleep 600"], timeout=0.05)
    recorded = step(running(command, allow_nonzero_exit=True))
    assert recorded["outcome"] == "failed"
    assert "took too long and was ended after" in str(recorded["error"])
    receipt = cast("JsonObject", recorded["receipt"])
    assert receipt["signal"] == "SIGTERM"


def test_a_command_that_ends_in_time_is_not_late_for_what_still_holds_its_output() -> None:
    command = script("sleep 600 & echo done")
    limits = Limits(max_output_chars=1_000, timeout_ms=60_000)
    ended = run_command(command, limits, ShellGroups(), Cancellation())
    assert not ended.timed_out
    assert ended.result.exit_code == 0


def test_killed_groups_start_nothing_any_more() -> None:
    groups = ShellGroups()
    groups.kill_all()
    with pytest.raises(OSError, match="ending"):
        run_command(Command(command="true"), LIMITS, groups, Cancellation())


class when_ready:  # noqa: N801 - used as a statement
    """Cancels as soon as the command has written its line into the pipe."""

    def __init__(self, ready: Path, heard: list[str], cancellation: Cancellation) -> None:
        def listen() -> None:
            heard.append(ready.read_text())
            cancellation.cancel(CancelReason.DEADLINE)

        self._thread = threading.Thread(target=listen, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_raised: object) -> None:
        self._thread.join(BOUND_MS / 1000)
        assert not self._thread.is_alive()


def assert_gone(pid: int) -> None:
    """Wait, bounded, for the end of a process that is nobody's child here."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(BOUND_MS), f"process {pid} lives on"
    finally:
        os.close(descriptor)


def test_a_stored_receipt_is_bounded(step: Callable[[Definition], JsonObject]) -> None:
    command = Command(command="true", args=["x" * 5_000] * 40)
    receipt = cast("JsonObject", step(running(command))["receipt"])
    arguments = cast("list[JsonValue]", receipt["args"])
    assert receipt["argsTruncated"] is True
    assert len(arguments) == 16
    assert all(len(str(argument)) == 1_000 for argument in arguments)
