"""A faithful in-memory server for one run, for the loop alone and for real child processes."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from pi_workflows.authoring import Definition
from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes
from pi_workflows.protocol.content import (
    INLINE_BYTES_MAX,
    PART_BYTES_MAX,
    ContentReference,
    decode_part,
    encode_part,
)
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.children import FoundChildren
from pi_workflows.runner.engine import Engine
from pi_workflows.runner.messages import Call, CallResult, Ending, EngineLoop, Reply, Send
from pi_workflows.runner.nodes.executor import Executor
from pi_workflows.runner.shell_groups import ShellGroups
from pi_workflows.runner.sources import DISK_SOURCES


@dataclass
class ScriptedServer:
    """Accepts what is legal, refuses the rest by assertion, and remembers everything.

    Attributes:
        refuse: an answer that replaces the real one, by a predicate on the message.
        page: nodes per `run.state` reply.
        failed_tries: of the visit that is under way.
        parks_retries: whether a try that is to be repeated parks the run.
        mount_of: the mount path of a node; whose player plays, sets it.
        is_authored: whether an author declared a node; set like `mount_of`.
    """

    input: JsonValue = None
    page: int = 2
    refuse: Callable[[Send], Reply | None] = lambda _message: None
    revision: int = 1
    steps: list[JsonObject] = field(default_factory=list)
    active: JsonObject | None = None
    effects: dict[str, JsonObject] = field(default_factory=dict)
    finished: JsonObject | None = None
    failed_tries: int = 0
    parks_retries: bool = False
    messages: list[Send] = field(default_factory=list)
    session_id: str | None = "session-1"
    notices: dict[str, tuple[str, JsonObject]] = field(default_factory=dict)
    contents: dict[str, bytearray] = field(default_factory=dict)
    mount_of: Callable[[str], str] = lambda _node_id: ""
    is_authored: Callable[[str], bool] = lambda _node_id: True

    def answer(self, message: Send) -> Reply:
        self.messages.append(message)
        refusal = self.refuse(message)
        if refusal is not None:
            return refusal
        if message.operation == "runner.ready":
            return self._ready()
        if message.operation == "run.state":
            return self._page(cast("int", message.payload["fromNode"]))
        if message.operation.startswith("content."):
            move = self._write if message.operation == "content.write" else self._read
            return move(message.payload)
        if message.operation == "run.advance":
            assert message.expected_revision == self.revision
            return self._advance(message)
        return self._reply({})

    def _advance(self, message: Send) -> Reply:
        results = [self._accept(transition) for transition in transitions_of(message)]
        if self.parks_retries and transitions_of(message)[-1].get("retry"):
            return Reply(WorkerMessageOutcome.CLAIM_LOST)
        return self._reply({"transitions": cast("list[JsonValue]", results)})

    @property
    def commits(self) -> list[list[str]]:
        """The types of the transitions of every accepted message."""
        return [
            [cast("str", transition["type"]) for transition in transitions_of(message)]
            for message in self.messages
            if message.operation == "run.advance"
        ]

    def sent(self, transition_type: str) -> list[JsonObject]:
        """Every transition of one type, in order."""
        transitions = [one for message in self.messages for one in transitions_of(message)]
        return [one for one in transitions if one["type"] == transition_type]

    @property
    def path(self) -> list[tuple[str, str]]:
        """Node and outcome of every recorded step."""
        return [(cast("str", step["nodeId"]), cast("str", step["outcome"])) for step in self.steps]

    def recover(self) -> None:
        """Do what a server does with a dead runner: close what was applying."""
        for effect in self.effects.values():
            if effect["status"] == "applying":
                effect["status"] = "ambiguous" if effect["recovery"] == "manual" else "pending"

    def _reply(self, result: JsonObject) -> Reply:
        return Reply(WorkerMessageOutcome.ACCEPTED, self.revision, result)

    def _ready(self) -> Reply:
        self.revision += 1
        boundary: JsonObject = {}
        if self.active is not None:
            boundary["interrupted"] = {
                key: self.active[key] for key in ("attemptId", "nodeId", "visit")
            }
        if self.failed_tries:
            boundary["failedTries"] = self.failed_tries
        resumed = self.active is not None or bool(self.steps)
        content = canonical_bytes(self.input)
        large = len(content) > INLINE_BYTES_MAX
        reference = ContentReference.of(content)
        if large:
            self.contents[reference.sha256] = bytearray(content)
        named: JsonObject = {"inputContent": reference.to_json()} if large else {}
        return self._reply(
            {
                "command": "resume" if resumed else "start",
                **(named or {"input": self.input}),
                "stepCount": len(self.steps),
                "boundary": boundary,
            }
        )

    def _write(self, part: JsonObject) -> Reply:
        content = self.contents.setdefault(cast("str", part["sha256"]), bytearray())
        assert part["offset"] == len(content)
        content += decode_part(part["data"])
        assert len(content) <= cast("int", part["bytes"])
        return self._reply({"received": len(content)})

    def _read(self, wanted: JsonObject) -> Reply:
        content = bytes(self.contents[cast("str", wanted["sha256"])])
        offset = cast("int", wanted["offset"])
        data = encode_part(content[offset : offset + PART_BYTES_MAX])
        return self._reply({"data": data, "bytes": len(content)})

    def _holds(self, transition: JsonObject, name: str) -> bool:
        """Whether a body is there; one by reference must have been written before."""
        if f"{name}Content" in transition:
            reference = ContentReference.parse(transition[f"{name}Content"])
            assert ContentReference.of(bytes(self.contents[reference.sha256])) == reference
            return name not in transition
        return name in transition

    def _page(self, start: int) -> Reply:
        found, end = self.newest(), start + self.page
        return self._reply(
            {
                "steps": cast("list[JsonValue]", found[start:end]),
                "next": end if end < len(found) else None,
            }
        )

    def newest(self) -> list[JsonObject]:
        """Return the newest step of each node that has one."""
        nodes = sorted({cast("str", step["nodeId"]) for step in self.steps})
        return [self._newest(node_id) for node_id in nodes]

    def _newest(self, node_id: str) -> JsonObject:
        """Return a node's newest step with what it counts for, by all that was recorded."""
        mount = self.mount_of(node_id)
        *_, step = [step for step in self.steps if step["nodeId"] == node_id]
        until = self.steps[: cast("int", step["stepIndex"]) + 1]
        entries = [one["stepIndex"] for one in self.steps if one["nodeId"] == mount]
        entered = cast("int", entries[-1]) if entries else -1
        here = [one for one in until if one["nodeId"] == node_id]
        return {
            **step,
            "invocationVisits": sum(cast("int", one["stepIndex"]) > entered for one in here),
            "authoredCount": sum(self.is_authored(cast("str", one["nodeId"])) for one in until),
        }

    def _accept(self, transition: JsonObject) -> JsonObject:
        assert self.finished is None
        self.revision += 1
        name = cast("str", transition["type"])
        accept: Mapping[str, Callable[[JsonObject], JsonObject]] = {
            "startAttempt": self._start,
            "setDeadline": self._deadline,
            "reserveEffect": self._reserve,
            "settleEffect": self._settle,
            "finishAttempt": self._finish,
            "enterInclude": self._cross,
            "exitInclude": self._cross,
            "finishRun": self._end,
            "notify": self._notify,
        }
        return accept[name](transition)

    def _notify(self, transition: JsonObject) -> JsonObject:
        assert self.active is not None
        self.revision -= 1  # The message has a revision of its own.
        if self.session_id is None:
            return {"messageId": None, "sessionId": None}
        visit = f"{transition['nodeId']}#{self.active['visit']}"
        message = self.notices.setdefault(visit, (f"message-{len(self.notices) + 1}", transition))
        return {"messageId": message[0], "sessionId": self.session_id}

    def _start(self, transition: JsonObject) -> JsonObject:
        if self.active is not None:  # An interrupted attempt gives way to one of the same visit.
            assert self.active["nodeId"] == transition["nodeId"]
        recorded = sum(step["nodeId"] == transition["nodeId"] for step in self.steps)
        assert transition["visit"] == recorded + 1
        self.active = dict(transition)
        return {}

    def _deadline(self, transition: JsonObject) -> JsonObject:
        assert self.active is not None
        assert transition["attemptId"] == self.active["attemptId"]
        self.active["timeoutMs"] = transition["timeoutMs"]
        return {}

    def _reserve(self, transition: JsonObject) -> JsonObject:
        assert self.active is not None
        assert transition["attemptId"] == self.active["attemptId"]
        effect_id = f"effect-{transition['nodeId']}-{transition['visit']}"
        effect = self.effects.setdefault(
            effect_id,
            {
                "status": "pending",
                "attemptNumber": 0,
                "recovery": transition["recovery"],
                "request": transition["request"],
            },
        )
        assert effect["request"] == transition["request"]
        if effect["status"] == "applied":
            kept: JsonObject = {
                key: effect[key] for key in ("result", "resultContent") if key in effect
            }
            return {"effectId": effect_id, "status": "applied", **kept}
        if self._is_to_be_seen(effect, transition):
            number = effect["attemptNumber"]
            return {"effectId": effect_id, "attemptNumber": number, "status": "pending"}
        effect["attemptNumber"] = cast("int", effect["attemptNumber"]) + 1
        if effect["status"] == "pending":
            effect["status"] = "applying"
        return {
            "effectId": effect_id,
            "attemptNumber": effect["attemptNumber"],
            "status": effect["status"],
        }

    @staticmethod
    def _is_to_be_seen(effect: JsonObject, transition: JsonObject) -> bool:
        """Whether an earlier try of an observed effect has to be looked for first."""
        looks = effect["recovery"] == "observe" and not transition.get("observed")
        return looks and effect["status"] == "pending" and effect["attemptNumber"] != 0

    def _settle(self, transition: JsonObject) -> JsonObject:
        effect = self.effects[cast("str", transition["effectId"])]
        assert effect["status"] == ("pending" if transition.get("observed") else "applying")
        assert effect["attemptNumber"] == transition["attemptNumber"]
        effect["status"] = "pending" if transition.get("retry") else transition["outcome"]
        assert self._holds(transition, "result") == (transition["outcome"] == "applied")
        effect |= {key: transition[key] for key in transition if key.startswith("result")}
        return {}

    def _finish(self, transition: JsonObject) -> JsonObject:
        assert self.active is not None
        assert transition["attemptId"] == self.active["attemptId"]
        assert self._holds(transition, "output") == (transition["outcome"] == "ok")
        if transition.get("retry"):
            self.failed_tries += 1
            self.active = None
            return {}
        self.failed_tries = 0
        started = {key: self.active[key] for key in ("nodeType", "visit", "startedAt")}
        self.steps.append(
            {**transition, **started, "stepIndex": len(self.steps), "finishedAt": 1_000}
        )
        self.active = None
        return {}

    def _cross(self, transition: JsonObject) -> JsonObject:
        assert self._holds(transition, "output")
        return self._finish({**transition, "outcome": "ok"})

    def _end(self, transition: JsonObject) -> JsonObject:
        assert self.active is None
        if transition["status"] == "completed":
            last = self.steps[-1]
            assert "outputContent" in last or transition["finalOutput"] == last["output"]
        else:
            assert "finalOutput" not in transition
        self.finished = transition
        return {}


def transitions_of(message: Send) -> list[JsonObject]:
    return cast("list[JsonObject]", message.payload.get("transitions", []))


class CountingOrigin:
    """Ids and instants that only count; no two origins make the same id."""

    _made = itertools.count(1)

    def __init__(self) -> None:
        self._number = next(self._made)
        self._count = 0

    def attempt_id(self) -> str:
        self._count += 1
        return f"attempt-{self._number}-{self._count}"

    def now_ms(self) -> int:
        self._count += 1
        return self._count


@dataclass
class Player:
    """Drives the engine loop against a scripted server, all in this thread.

    Attributes:
        results: what calls of a node give, in order, in the place of its code.
        calls: every call that was made.
        updates: what user code has published.
        crash_before: how many steps of the loop to carry out; None carries out all.
        lose_last_reply: whether the last of them reaches the server, with its answer lost.
    """

    definition: Definition
    server: ScriptedServer
    results: dict[str, list[CallResult]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    updates: list[JsonObject] = field(default_factory=list)

    def __post_init__(self) -> None:
        nowhere = FoundChildren(DISK_SOURCES, Path("/nowhere"), Path("/nowhere"))
        self.definition = compile_definition(self.definition, nowhere)
        nodes = self.definition.nodes
        self.server.mount_of = lambda node_id: nodes[node_id].mount_path
        self.server.is_authored = lambda node_id: nodes[node_id].crossing is None

    def play(
        self, *, crash_before: int | None = None, lose_last_reply: bool = False
    ) -> Ending | None:
        """Return how the loop ended; None when it was cut off."""
        loop = self._loop()
        step = next(loop)
        carried_out = 0
        while crash_before is None or carried_out < crash_before:
            try:
                step = loop.send(self._carry_out(step))
            except StopIteration as end:
                return cast("Ending", end.value)
            carried_out += 1
        if lose_last_reply and isinstance(step, Send):
            self.server.answer(step)
        loop.close()
        return None

    def _loop(self) -> EngineLoop:
        return Engine(self.definition, run_id="run-1", origin=CountingOrigin()).run()

    def _carry_out(self, step: Send | Call) -> Reply | CallResult:
        if isinstance(step, Send):
            return self.server.answer(step)
        self.calls.append(step)
        scripted = self.results.get(step.node.node_id)
        if scripted:
            return scripted.pop(0)
        executor = Executor(
            self.definition, ShellGroups(), source_directory=None, speak=self._publish
        )
        return executor.run(step, Cancellation())

    def _publish(self, update: Send) -> Reply:
        self.updates.append(update.payload)
        return Reply(WorkerMessageOutcome.ACCEPTED, None, {})


@pytest.fixture
def server() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
def new_server() -> type[ScriptedServer]:
    return ScriptedServer


@pytest.fixture
def player() -> type[Player]:
    return Player
