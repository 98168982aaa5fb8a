"""A run over every kind of node that there is, as it is shown at each stage of its life."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import (
    EffectAttemptOutcome,
    MountRole,
    NodeType,
    RunStatus,
    StepOutcome,
)
from store import updates
from store.blobs import Blob
from store.projection import run_state
from store.proposals import CrossMount, FinishRun, Notify, StartAttempt
from store.run_creation import MountSource, create_run
from store.run_notifying import content_of
from store.updates import NewUpdate
from tests.store.writes.conftest import CONTROL, WrittenRun

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore

GOLDEN: Final = Path(__file__).parents[2] / "golden"
DRAWN: Final = re.compile(r"\b(upd|message)[_-][0-9a-f-]{36}")
"""Ids that the store makes itself; how many it made before says nothing of a projection."""

RULES: Final[JsonObject] = {"paths": [{"path": "", "read": ["human"], "replace": ["human"]}]}
RETRY: Final[JsonObject] = {
    "attempts": 2,
    "backoffMs": 1_000,
    "factor": 1,
    "maxBackoffMs": 60_000,
    "outcomes": ["failed"],
}
IDEMPOTENT: Final[JsonObject] = {"type": "mail.send", "recovery": "idempotent"}
OUTCOMES: Final[JsonObject] = {"ok": "pick", "failed": "pick", "timed_out": "pick"}
GRAPH: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "everything",
    "startAt": "count",
    "maxSteps": 50,
    "nodes": [
        {"id": "count", "type": "compute"},
        {"id": "tell", "type": "notify", "kind": "progress"},
        {"id": "send", "type": "action", "form": "function", "effect": IDEMPOTENT, "retry": RETRY},
        {
            "id": "look",
            "type": "shell",
            "form": "shell",
            "effect": {"type": "shell", "recovery": "manual"},
        },
        {"id": "pick", "type": "compute", "settingsRoute": True},
        {"id": "fix", "type": "compute", "role": "entry"},
        {"id": "fix/work", "type": "compute", "mountPath": "fix", "localId": "work"},
        {
            "id": "fix/__piw_exit_fixed",
            "type": "compute",
            "mountPath": "fix",
            "localId": "__piw_exit_fixed",
            "role": "exit",
            "exit": "fixed",
            "validated": False,
        },
        {"id": "report", "type": "compute"},
    ],
    "edges": [
        {"from": "count", "to": "tell"},
        {"from": "tell", "to": "send"},
        {"from": "send", "to": "look"},
        {"from": "look", "switch": {"on": "$result.outcome", "cases": OUTCOMES}},
        {"from": "pick", "switch": {"on": "$.route", "cases": {"on": "fix"}}},
        {"from": "fix", "to": "fix/work"},
        {"from": "fix/work", "to": "fix/__piw_exit_fixed"},
        {"from": "fix/__piw_exit_fixed", "to": "report"},
    ],
    "mounts": [
        {"path": "fix", "name": "repair", "startAt": "work", "maxSteps": 9, "exits": ["fixed"]}
    ],
    "settings": RULES,
}
ENTRY: Final[JsonObject] = {
    "schema": "pi-workflows.include-entry.v1",
    "invocation": 1,
    "input": {"issue": "a loose screw"},
}


class Story:
    """One run of the graph; ten milliseconds pass with each message of its runner."""

    def __init__(self, store: "WriteStore") -> None:
        new = replace(
            store.new_run("run-1", origin_session_id="session-1"),
            workflow_name="everything",
            workflow_ref="builtin:everything",
            source=SourceIdentity(SourceKind.BUILTIN, "everything", "sha256:ab"),
            snapshot=Blob.of_json(GRAPH),
            settings=Blob.of_json({"lane": "normal"}),
            title="one of each",
            mounts=(
                MountSource("fix", SourceIdentity(SourceKind.FILE, "/one/fix.py", "cd" * 32)),
            ),
        )
        store.do(create_run, CONTROL, new)
        self.store: Final = store
        self.run: Final = WrittenRun(store, "run-1", DefinitionSnapshot.parse(GRAPH))
        self.told: dict[str, JsonObject] = {}
        self._tries = 0

    def show(self, stage: str) -> None:
        """Remember how the run is shown now, and that nothing is written by looking."""
        before = self.store.dump()
        text = json.dumps(self.store.do(run_state, "run-1"))
        self.told[stage] = json.loads(DRAWN.sub(r"\1-drawn", text))
        assert self.store.dump() == before

    def start(self, node_id: str, detail: str | None = None) -> StartAttempt:
        self._tries += 1
        attempt_id = f"attempt-{self._tries}-{node_id}"
        start = replace(self.run.started(node_id), attempt_id=attempt_id, status_detail=detail)
        self._tick()
        self.run.advance(start)
        return start

    def step(self, node_id: str, output: JsonValue) -> None:
        start = self.start(node_id)
        self._tick()
        self.run.advance(self.run.finished(start, output))

    def notify(self, node_id: str, text: str) -> None:
        start = self.start(node_id)
        content = content_of("progress", text)
        notice = self.run.advance(Notify(start.attempt_id, node_id, "progress", content)).notices[
            0
        ]
        assert notice is not None
        self._tick()
        told = {"notificationId": notice.message_id, "targetSessionId": notice.session_id}
        self.run.advance(self.run.finished(start, cast("JsonValue", told)))

    def cross(self, node_id: str, role: MountRole, output: JsonObject) -> None:
        start = self.start(node_id)
        self._tick()
        self.run.advance(CrossMount(start.attempt_id, node_id, role, Blob.of_json(output), output))

    def publish(self, start: StartAttempt, done: int) -> None:
        data = Blob.of_json({"schema": "pi-workflows.progress.v1", "status": "running", "n": done})
        wanted = NewUpdate(start.attempt_id, "progress", "overall", data)
        self.store.do(updates.publish, self.run.permit, "run-1", wanted)

    def _tick(self) -> None:
        self.store.now += 10


def first_half(story: Story) -> None:
    """From the start to the wait between the two tries of `send`."""
    run = story.run
    story.show("queued")
    run.begin()
    story.step("count", {"lines": 2})
    story.notify("tell", "half way")
    start = story.start("send", "sends the letter")
    run.advance(run.reserved(start))
    story.publish(start, 1)
    story.publish(start, 2)
    story.show("acting")
    failed = run.finished(start, outcome=StepOutcome.FAILED, error="no route to host")
    settled = run.settled(start, EffectAttemptOutcome.REJECTED)
    run.advance(replace(settled, retry=True), replace(failed, retry=True))
    run.end_child()
    story.show("between_tries")
    story.store.now += 1_000


def second_half(story: Story) -> None:
    """From the second try of `send` to the last step."""
    run = story.run
    run.begin()
    start = story.start("send")
    run.advance(run.reserved(start))
    receipt = Blob.of_json({"actionType": "function"})
    ended = replace(run.finished(start, {"sent": True}), receipt=receipt)
    run.advance(run.settled(start, EffectAttemptOutcome.APPLIED, number=2), ended)
    look = story.start("look")
    run.advance(run.reserved(look))
    late = run.finished(look, outcome=StepOutcome.TIMED_OUT, error="TIMED_OUT: too slow")
    shell: JsonObject = {"actionType": "shell", "command": "ls", "signal": "SIGTERM"}
    late = replace(late, receipt=Blob.of_json(shell))
    run.advance(run.settled(look, EffectAttemptOutcome.REJECTED), late)
    story.step("pick", {"route": "on"})
    story.cross("fix", MountRole.ENTRY, ENTRY)
    story.step("fix/work", "mended")
    story.cross("fix/__piw_exit_fixed", MountRole.EXIT, {"exit": "fixed", "output": "mended"})
    story.show("between_nodes")
    story.step("report", ["all", "well"])


def completed(story: Story) -> None:
    """The whole way to a good end."""
    first_half(story)
    second_half(story)
    output = Blob.of_json(["all", "well"])
    story.run.advance(FinishRun(RunStatus.COMPLETED, output, None))
    story.show("completed")


def cancelled(story: Story) -> None:
    """Cancelled in the wait."""
    first_half(story)
    story.run.cancel("enough")
    story.show("cancelled")


def failed(story: Story) -> None:
    """The last node fails, and with it the run."""
    first_half(story)
    second_half_failed(story)
    story.show("failed")


def second_half_failed(story: Story) -> None:
    """The second try of `send` fails, too."""
    run = story.run
    run.begin()
    start = story.start("send")
    run.advance(run.reserved(start))
    ended = run.finished(start, outcome=StepOutcome.FAILED, error="no route to host")
    run.advance(run.settled(start, EffectAttemptOutcome.REJECTED, number=2), ended)
    error = Blob.of_text("no route to host")
    run.advance(FinishRun(RunStatus.FAILED, None, error))


@pytest.mark.parametrize("tell", [completed, cancelled, failed])
def test_every_stage_of_a_run_is_shown_as_its_golden_document(
    store: "WriteStore",
    tell: Any,  # noqa: ANN401 - one of the three above
) -> None:
    """Queued, acting, between two tries, between two nodes, and each end.

    Case: B87.
    """
    story = Story(store)
    tell(story)
    for stage, shown in story.told.items():
        file = GOLDEN / f"everything_{stage}.json"
        assert shown == json.loads(file.read_text(encoding="utf-8")), stage


def test_the_stages_have_every_kind_of_node_that_can_run() -> None:
    nodes = cast("list[JsonObject]", GRAPH["nodes"])
    cannot_run = {NodeType.AGENT, NodeType.CHECKPOINT, NodeType.HUMAN}
    assert {node["type"] for node in nodes} == {*NodeType} - cannot_run
    assert {node.get("role") for node in nodes} == {None, *MountRole}
