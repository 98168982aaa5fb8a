"""Plays a workflow file in this process, against a server that accepts everything."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias, cast

import pytest

from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.authoring.loading import load_file, source_identity
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.children import FoundChildren
from pi_workflows.runner.engine import Engine
from pi_workflows.runner.messages import Call, CallResult, Reply, Send
from pi_workflows.runner.nodes.executor import Executor
from pi_workflows.runner.shell_groups import ShellGroups
from pi_workflows.runner.sources import DISK_SOURCES

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"


@dataclass
class Play:
    """One run of a workflow file, from its start to its end.

    Attributes:
        times_out: visits of nodes whose code is not run but ends at its deadline.
        path: node and outcome of every step.
        updates: what nodes have published.
        end: the transition that ended the run.
    """

    input: JsonValue
    times_out: Collection[tuple[str, int]] = ()
    path: list[tuple[str, str]] = field(default_factory=list)
    updates: list[JsonObject] = field(default_factory=list)
    end: JsonObject = field(default_factory=dict)

    def run(self, file: Path) -> None:
        children = FoundChildren(DISK_SOURCES, file.parent, file.parent)
        loaded = load_file(file, source_identity(file)[0])
        definition = compile_definition(loaded, children, file)
        self.input = definition.accept_input(self.input)
        executor = Executor(
            definition, ShellGroups(), source_directory=file.parent, speak=self._publish
        )
        loop = Engine(definition, run_id="run-1", origin=_Origin()).run()
        step = next(loop)
        while True:
            reply = self._accept(step) if isinstance(step, Send) else self._call(executor, step)
            try:
                step = loop.send(reply)
            except StopIteration:
                return

    @property
    def nodes(self) -> list[str]:
        return [node_id for node_id, _ in self.path]

    @property
    def output(self) -> JsonObject:
        assert self.end["status"] == "completed", self.end
        return cast("JsonObject", self.end["finalOutput"])

    def _call(self, executor: Executor, call: Call) -> CallResult:
        if call.purpose.name == "NODE" and (call.node.node_id, call.visit) in self.times_out:
            return CallResult(outcome=StepOutcome.TIMED_OUT)
        return executor.run(call, Cancellation())

    def _accept(self, message: Send) -> Reply:
        if message.operation == "runner.ready":
            start: JsonObject = {"command": "start", "input": self.input, "stepCount": 0}
            return Reply(WorkerMessageOutcome.ACCEPTED, 1, start)
        transitions = cast("list[JsonObject]", message.payload["transitions"])
        results: list[JsonValue] = [self._apply(transition) for transition in transitions]
        return Reply(WorkerMessageOutcome.ACCEPTED, 1, {"transitions": results})

    def _publish(self, update: Send) -> Reply:
        self.updates.append(update.payload)
        return Reply(WorkerMessageOutcome.ACCEPTED, None, {})

    def _apply(self, transition: JsonObject) -> JsonObject:
        if transition["type"] == "finishAttempt":
            self.path.append((str(transition["nodeId"]), str(transition["outcome"])))
        elif transition["type"] in {"enterInclude", "exitInclude"}:
            self.path.append((str(transition["nodeId"]), "ok"))
        elif transition["type"] == "finishRun":
            self.end = transition
        elif transition["type"] == "reserveEffect":
            return {"effectId": "effect-1", "attemptNumber": 1, "status": "applying"}
        return {}


class _Origin:
    def attempt_id(self) -> str:
        return "attempt-1"

    def now_ms(self) -> int:
        return 1


PlayExample: TypeAlias = Callable[..., Play]


@pytest.fixture
def play_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayExample:
    """Plays `examples/<name>.workflow.py` with the test's folder as the project."""
    monkeypatch.chdir(tmp_path)

    def play(
        name: str, given: JsonValue = None, times_out: Collection[tuple[str, int]] = ()
    ) -> Play:
        played = Play(given, times_out)
        played.run(EXAMPLES / f"{name}.workflow.py")
        return played

    return play
