"""Command batches with real processes."""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pi_workflows.authoring import (
    BatchCommand,
    BatchKind,
    CommandBatchResult,
    Ctx,
    Update,
    UpdateRefused,
    Workflow,
    idempotent,
)
from pi_workflows.runner.cancellation import Cancellation, CancelReason
from pi_workflows.runner.nodes.batch import CommandBatches
from pi_workflows.runner.shell_groups import ShellGroups

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runner.conftest import Player, ScriptedServer

BOUND_S: Final = 120.0


def item(name: str, script: str, *args: str, **options: Any) -> BatchCommand:  # noqa: ANN401
    settings = {"cwd": "/", "timeout": BOUND_S, **options}
    return BatchCommand(id=name, command="/bin/sh", args=["-c", script, "sh", *args], **settings)


class Batch:
    """Runs batches and keeps what they publish."""

    def __init__(self) -> None:
        self.cancellation = Cancellation()
        self.groups = ShellGroups()
        self.updates: list[Update] = []
        self.refuses = False

    def publish(self, update: Update) -> None:
        if self.refuses:
            raise UpdateRefused("UPDATE_RATE", "too many")
        self.updates.append(update)

    def __call__(
        self, *commands: BatchCommand, concurrency: int = 4, term_grace_ms: int = 20_000
    ) -> CommandBatchResult:
        batches = CommandBatches(
            self.groups, self.cancellation, self.publish, term_grace_ms=term_grace_ms
        )
        return batches(commands, BatchKind.REVIEW, concurrency)


@pytest.fixture
def batch() -> Batch:
    return Batch()


def outcomes(result: CommandBatchResult) -> list[tuple[str, str]]:
    return [(one.id, one.outcome.value) for one in result.items]


def test_results_stand_in_the_order_of_the_commands_whichever_ends_first(
    batch: Batch, tmp_path: Path
) -> None:
    """The first command waits for the last one, so their ends come in the other order.

    Case: B31.
    """
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    result = batch(
        item("slow", 'read line < "$1"; echo "$line"', str(gate)),
        item("bad", "echo oops >&2; exit 3"),
        item("quick", 'echo out; echo go > "$1"', str(gate)),
        concurrency=3,
    )
    assert outcomes(result) == [("slow", "succeeded"), ("bad", "failed"), ("quick", "succeeded")]
    slow, bad, quick = result.items
    assert (slow.stdout, quick.stdout) == ("go\n", "out\n")
    assert (bad.exit_code, bad.stderr) == (3, "oops\n")
    assert bad.error == 'command "/bin/sh" exited with code 3: oops'
    assert slow.error is None


def test_no_command_makes_the_batch_raise(batch: Batch) -> None:
    result = batch(
        BatchCommand(id="missing", command="/no/such/program", cwd="/", timeout=1),
        BatchCommand(id="nowhere", command="true", cwd="/no/such/folder", timeout=1),
        BatchCommand(id="nul", command="true", args=["a\0b"], cwd="/", timeout=1),
        item("killed", "kill -9 $$"),
    )
    assert {one.outcome.value for one in result.items} == {"failed"}
    errors = [one.error or "" for one in result.items]
    assert (
        errors[0] == 'command "/no/such/program" could not be started: No such file or directory'
    )
    assert "could not be started" in errors[1]
    assert "null byte" in errors[2]
    assert errors[3] == 'command "/bin/sh" was ended by SIGKILL'
    assert result.items[3].signal == "SIGKILL"


def test_an_error_text_of_a_command_is_bounded(batch: Batch) -> None:
    name = "/no/" + "x" * 9_000
    result = batch(BatchCommand(id="a", command=name, cwd="/", timeout=1))
    assert len(result.items[0].error or "") <= 2_000


def test_output_of_each_stream_is_cut_and_flagged(batch: Batch) -> None:
    result = batch(item("loud", "echo 123456789; echo 1 >&2", max_output_chars=4))
    (loud,) = result.items
    assert loud.stdout.startswith("1234\n")
    assert (loud.stdout_truncated, loud.stderr_truncated) == (True, False)


def test_a_command_that_takes_too_long_is_ended_and_the_others_are_not(batch: Batch) -> None:
    result = batch(
        item("late", "trap '' TERM; while :; do sleep 1; done", timeout=0.05),
        item("fine", "echo fine"),
        term_grace_ms=20,
    )
    assert outcomes(result) == [("late", "timedOut"), ("fine", "succeeded")]
    assert "took too long and was ended after" in (result.items[0].error or "")
    assert result.items[0].signal == "SIGKILL"


def test_no_more_commands_run_at_a_time_than_wanted(batch: Batch, tmp_path: Path) -> None:
    """Each command notes how many are at work; a slot is a folder that only one can make."""
    script = 'mkdir "$1/slot" || exit 9; : > "$1/$2"; rmdir "$1/slot"'
    commands = [item(f"c{n}", script, str(tmp_path), f"c{n}") for n in range(8)]
    result = batch(*commands, concurrency=1)
    assert all(one.outcome == "succeeded" for one in result.items)
    assert len(list(tmp_path.iterdir())) == 8


def test_commands_run_side_by_side(batch: Batch, tmp_path: Path) -> None:
    """Two that meet over a pipe can only end if both are at work."""
    there, back = tmp_path / "there", tmp_path / "back"
    os.mkfifo(there)
    os.mkfifo(back)
    result = batch(
        item("a", 'echo 1 > "$1"; read x < "$2"', str(there), str(back)),
        item("b", 'read x < "$1"; echo 2 > "$2"', str(there), str(back)),
        concurrency=2,
    )
    assert result.succeeded


def test_cancelled_batch_ends_what_works_and_starts_nothing_more(
    batch: Batch, tmp_path: Path
) -> None:
    """Case: B31."""
    started = tmp_path / "started"
    os.mkfifo(started)

    def cancel() -> None:
        started.read_text()
        batch.cancellation.cancel(CancelReason.DEADLINE)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    result = batch(
        item("done", "true"),
        item("working", 'echo go > "$1"; exec sleep 1000', str(started)),
        item("waiting", 'touch "$1"', str(tmp_path / "touched")),
        concurrency=1,
    )
    canceller.join()
    assert outcomes(result) == [
        ("done", "succeeded"),
        ("working", "cancelled"),
        ("waiting", "cancelled"),
    ]
    assert result.items[1].signal == "SIGTERM"
    assert (result.items[2].exit_code, result.items[2].duration_ms) == (None, 0)
    assert result.items[2].error == "it was not started: the node is to stop"
    assert not (tmp_path / "touched").exists()
    assert not batch.groups.in_use


def test_the_end_of_each_command_is_published_once_in_order(batch: Batch) -> None:
    """Case: B31."""
    batch(item("a", "true"), item("b", "false"), concurrency=1)
    assert [(update.type, update.key, dict(update.data)) for update in batch.updates] == [
        (
            "command-batch.item",
            f"review/{name}",
            {
                "schema": "pi-workflows.command-batch-item.v1",
                "batchKind": "review",
                "itemId": name,
                "outcome": outcome,
                "completed": completed,
                "total": 2,
            },
        )
        for name, outcome, completed in [("a", "succeeded", 1), ("b", "failed", 2)]
    ]


def test_a_refused_update_changes_nothing_of_the_result(batch: Batch) -> None:
    batch.refuses = True
    assert batch(item("a", "true")).succeeded


def test_an_empty_batch_has_an_empty_result(batch: Batch) -> None:
    assert batch().items == ()
    assert batch.updates == []


def test_where_no_threads_can_be_had_the_commands_run_one_by_one(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert batch(item("a", "true"), item("b", "true")).succeeded


@pytest.mark.parametrize("reason", ["compute", "request"])
def test_only_the_function_of_an_action_runs_a_batch(
    reason: str, server: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("wrong")

    def ask(ctx: Ctx[Any]) -> CommandBatchResult:
        return ctx.command_batch([], kind=BatchKind.REVIEW)

    if reason == "compute":
        node: Any = wf.compute()(ask)
    else:

        @wf.action(effect=idempotent("x"), request=ask)
        def act() -> None: ...

        node = act
    player(wf.build(start=node), server).play()
    error = str(server.steps[0]["error"])
    assert error.startswith("BatchRefused [BATCH_REFUSED] only the function of an action")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_action_has_the_result_of_its_batch_for_its_output(
    server: "ScriptedServer",
    player: "type[Player]",
    asynchronous: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    wf = Workflow("checks")
    commands = [item("a", "echo A"), item("b", "exit 1")]

    def checks(ctx: Ctx[Any]) -> CommandBatchResult:
        return ctx.command_batch(commands, kind=BatchKind.VERIFICATION, concurrency=2)

    async def in_a_thread(ctx: Ctx[Any]) -> CommandBatchResult:
        import trio  # noqa: PLC0415 - as an author's file would

        return await trio.to_thread.run_sync(checks, ctx)

    chosen: Callable[..., Any] = in_a_thread if asynchronous else checks
    node = wf.action(effect=idempotent("checks.run"))(chosen)
    player(wf.build(start=node), server).play()
    step: Any = server.steps[0]
    assert step["outcome"] == "ok"
    assert [(one["id"], one["outcome"], one["stdout"]) for one in step["output"]["items"]] == [
        ("a", "succeeded", "A\n"),
        ("b", "failed", ""),
    ]
