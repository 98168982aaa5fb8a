"""A notification from the engine loop, through the wire's form, into the real store."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.runner_boundary import boundary
from actors.runner_proposals import parse_advance
from pi_workflows.authoring import Ctx, Definition, Workflow
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.engine import Engine
from pi_workflows.runner.messages import Reply, Send
from pi_workflows.runner.nodes.executor import Executor
from pi_workflows.runner.shell_groups import ShellGroups
from store.blobs import Blob
from store.run_creation import create_run
from tests.runner.conftest import CountingOrigin
from tests.store.writes.conftest import CONTROL, WriteStore, WrittenRun

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from store.contents import StagedContent

SESSION: Final = "session-1"


def telling(said: list[str]) -> Definition:
    """A workflow that says the next text, and answers who was told."""
    wf = Workflow("telling")

    @wf.notify()
    def tell() -> str:
        return said.pop(0)

    @wf.compute()
    def who(ctx: Ctx[Any]) -> str:
        return ctx.output(tell).target_session_id

    wf.edge(tell, who)
    return wf.build(start=tell)


def stage(_reference: "JsonObject") -> "StagedContent":
    raise AssertionError("nothing here is too large for a message")


def answer(run: WrittenRun, sent: Send) -> Reply:
    """Answer as the server does, from the store."""
    if sent.operation == "runner.ready":
        ready = run.ready()
        told: JsonObject = {
            "command": ready.command.value,
            "input": None,
            "stepCount": ready.step_count,
            "boundary": boundary(ready, 0),
        }
        return Reply(WorkerMessageOutcome.ACCEPTED, ready.revision, told)
    assert sent.operation == "run.advance"
    assert sent.expected_revision == run.revision
    answered = run.answer(run.message(*parse_advance(sent.payload, stage)))
    return Reply(answered.outcome, answered.revision, answered.result, answered.error)


def play(run: WrittenRun, definition: Definition, *, messages: int | None = None) -> None:
    """Run the engine loop under a new claim until it ends or has sent so many messages."""
    run.take()
    run.launch()
    loop = Engine(definition, run_id=run.run_id, origin=CountingOrigin()).run()
    executor = Executor(definition, ShellGroups(), source_directory=None)
    step = next(loop)
    sent = 0
    while messages is None or sent < messages:
        sent += isinstance(step, Send)
        made = answer(run, step) if isinstance(step, Send) else executor.run(step, Cancellation())
        try:
            step = loop.send(made)
        except StopIteration:
            return
    loop.close()


@pytest.fixture
def definition() -> Definition:
    return telling(["At noon", "At one"])


@pytest.fixture
def told(store: WriteStore, definition: Definition) -> WrittenRun:
    """A run of that workflow that belongs to a conversation."""
    snapshot = definition.snapshot()
    new = store.new_run("run-1", origin_session_id=SESSION)
    store.do(create_run, CONTROL, replace(new, snapshot=Blob.of_json(snapshot)))
    return WrittenRun(store, "run-1", DefinitionSnapshot.parse(snapshot))


def rows(run: WrittenRun) -> list[tuple[Any, ...]]:
    return run.store.rows(
        "SELECT kind, source_id, order_number, status, b.content FROM workflow_messages AS m"
        " JOIN blobs AS b ON b.blob_hash = m.content_hash"
    )


WRITTEN: Final = (
    "notification",
    "tell#1",
    1,
    "pending",
    b'{"kind":"progress","schema":"pi-workflows.notification.v1","text":"At noon"}',
)


def test_notification_of_a_run_is_written_once_and_its_step_names_it(
    told: WrittenRun, definition: Definition
) -> None:
    play(told, definition)
    assert told.status == ("completed", "done")
    assert rows(told) == [WRITTEN]


def test_runner_that_dies_between_message_and_step_sends_no_second_one(
    told: WrittenRun, definition: Definition
) -> None:
    """Its third message has written the notification; the next runner says something else.

    Case: B37.
    """
    play(told, definition, messages=3)
    assert rows(told) == [WRITTEN]
    assert told.store.value("SELECT count(*) FROM run_steps") == 0
    told.store.recover()
    play(told, definition)
    assert told.status == ("completed", "done")
    assert rows(told) == [WRITTEN]
    assert told.store.rows("SELECT node_id, visit, attempt_number, status FROM node_attempts") == [
        ("tell", 1, 1, "cancelled"),
        ("tell", 1, 2, "completed"),
        ("who", 1, 1, "completed"),
    ]
