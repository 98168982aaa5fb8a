"""Settings in the engine loop: which copy code sees, and when a settings route runs again."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import BaseModel
from typing_extensions import override

from pi_workflows import Ctx, Definition, Retry, Route, Settings, Workflow, allow
from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes
from pi_workflows.protocol.content import INLINE_BYTES_MAX, ContentReference
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.messages import CallResult, Ending, ExitReason
from tests.runner.conftest import ScriptedServer

if TYPE_CHECKING:
    from tests.runner.conftest import Player


class Lane(StrEnum):
    normal = "normal"
    careful = "careful"


class Tune(BaseModel):
    lane: Lane = Lane.normal
    note: str = ""


@dataclass
class TunedServer(ScriptedServer):
    """Tells settings as the server does, by mount; `changes` come before the so-manieth message.

    Attributes:
        settings: change number and value by mount path.
        changes: mount path and new value, by the number of `run.advance` messages before it.
        told: what was said to each `startAttempt`, in order.
    """

    settings: dict[str, tuple[int, JsonValue]] = field(default_factory=dict)
    changes: dict[int, tuple[str, JsonValue]] = field(default_factory=dict)
    routes: tuple[str, ...] = ()
    bound: int = 0
    told: list[JsonObject] = field(default_factory=list)

    @override
    def _advance(self, message: Any) -> Any:
        change = self.changes.pop(len(self.commits) - 1, None)
        if change is not None:
            mount, value = change
            self.settings[mount] = (self.settings[mount][0] + 1, value)
        return super()._advance(message)

    @override
    def _start(self, transition: JsonObject) -> JsonObject:
        super()._start(transition)
        around = cast("str", transition["nodeId"]).rpartition("/")[0]
        if around not in self.settings:
            return {}
        number, value = self.settings[around]
        self.bound = number
        told: JsonObject = {"scopeId": f"run-1:{around or '$root'}:1", "changeNumber": number}
        if transition.get("settingsKnown") != number:
            told |= self._value(value)
        self.told.append(told)
        return {"settings": told}

    def _value(self, value: JsonValue) -> JsonObject:
        content = canonical_bytes(value)
        if len(content) <= INLINE_BYTES_MAX:
            return {"value": value}
        reference = ContentReference.of(content)
        self.contents[reference.sha256] = bytearray(content)
        return {"valueContent": reference.to_json()}

    @override
    def _finish(self, transition: JsonObject) -> JsonObject:
        node_id = cast("str", transition["nodeId"])
        number, value = self.settings.get(node_id.rpartition("/")[0], (0, None))
        if node_id in self.routes and number != self.bound:
            self.bound = number
            scope: JsonObject = {"scopeId": "run-1:$root:1", "changeNumber": number}
            return {"reruns": True, "settings": {**scope, "value": value}}
        return super()._finish(transition)

    @override
    def _cross(self, transition: JsonObject) -> JsonObject:
        output = cast("JsonObject", transition["output"])
        if "settings" in output:
            self.settings[cast("str", transition["nodeId"])] = (0, output["settings"])
        return super()._cross(transition)


def tuned(initial: Tune | None = None, retry: Retry | None = None) -> Definition[Any]:
    """`work`, a route by settings, then `fast` or `slow`, which say what they see."""
    declared = Settings(Tune, initial=initial or Tune(), paths=[allow("", read=["human"])])
    wf = Workflow("tune", settings=declared)

    @wf.compute()
    def work(ctx: Ctx[Any, Tune]) -> list[Any]:
        return [ctx.settings.lane, ctx.settings_change_number, ctx.settings_scope_id]

    @wf.settings_route(retry=retry)
    def pick(ctx: Ctx[Any, Tune]) -> Route[Lane]:
        return Route(route=ctx.settings.lane)

    @wf.compute()
    def fast(ctx: Ctx[Any, Tune]) -> list[Any]:
        return ["fast", ctx.settings_change_number, len(ctx.settings.note)]

    @wf.compute()
    def slow(ctx: Ctx[Any, Tune]) -> list[Any]:
        return ["slow", ctx.settings_change_number, len(ctx.settings.note)]

    wf.edge(work, pick)
    wf.route(pick, {Lane.normal: fast, Lane.careful: slow})
    wf.exit("fast", fast)
    wf.exit("slow", slow)
    return wf.build(start=work)


NORMAL: JsonObject = {"lane": "normal", "note": ""}
CAREFUL: JsonObject = {"lane": "careful", "note": ""}


def test_a_node_keeps_its_copy_and_the_next_sees_the_change(player: "type[Player]") -> None:
    """What the runner knows is not said again.

    Case: B74.
    """
    server = TunedServer(settings={"": (0, NORMAL)}, changes={1: ("", CAREFUL)}, routes=("pick",))
    playing = player(tuned(), server)
    assert playing.play() == Ending(ExitReason.FINISHED)
    assert [step["output"] for step in server.steps] == [
        ["normal", 0, "run-1:$root:1"],
        {"route": "careful"},
        ["slow", 1, 0],
    ]
    assert ["value" in told for told in server.told] == [True, True, False]


def test_a_settings_route_alone_runs_again_after_a_change(player: "type[Player]") -> None:
    """The same try; what its first time chose is nowhere.

    Case: B75.
    """
    server = TunedServer(settings={"": (0, NORMAL)}, changes={2: ("", CAREFUL)}, routes=("pick",))
    playing = player(tuned(), server)
    assert playing.play() == Ending(ExitReason.FINISHED)
    assert server.path == [("work", "ok"), ("pick", "ok"), ("slow", "ok")]
    calls = [call for call in playing.calls if call.node.node_id == "pick"]
    assert [call.settings and call.settings.change_number for call in calls] == [0, 1]
    assert len({call.attempt_id for call in calls}) == 1
    assert len([call for call in playing.calls if call.node.node_id == "work"]) == 1
    assert server.steps[-1]["output"] == ["slow", 1, 0]


def test_a_settings_route_is_closed_before_anything_follows_it(player: "type[Player]") -> None:
    server = TunedServer(settings={"": (0, NORMAL)}, routes=("pick",))
    assert player(tuned(), server).play() == Ending(ExitReason.FINISHED)
    assert ["finishAttempt"] in server.commits


def test_a_crash_in_a_settings_route_repeats_it_on_the_newest_settings(
    player: "type[Player]",
) -> None:
    server = TunedServer(settings={"": (0, NORMAL)}, changes={2: ("", CAREFUL)}, routes=("pick",))
    for carried_out in range(1, 8):
        player(tuned(), server).play(crash_before=carried_out, lose_last_reply=True)
        if server.finished is not None:
            break
    else:
        player(tuned(), server).play()
    assert server.path == [("work", "ok"), ("pick", "ok"), ("slow", "ok")]


def test_large_settings_come_by_reference(player: "type[Player]") -> None:
    large: JsonObject = {"lane": "normal", "note": "x" * INLINE_BYTES_MAX}
    server = TunedServer(settings={"": (0, large)}, routes=("pick",))
    assert player(tuned(), server).play() == Ending(ExitReason.FINISHED)
    assert server.steps[-1]["output"] == ["fast", 0, INLINE_BYTES_MAX]
    assert len([one for one in server.messages if one.operation == "content.read"]) == 1


def included(settings: Any) -> Definition[Any]:  # noqa: ANN401 - any mapper
    wf = Workflow("parent", settings=Settings(Tune, initial=Tune(lane=Lane.careful)))

    @wf.compute()
    def look(ctx: Ctx[Any, Tune]) -> str:
        return ctx.settings.lane

    child = wf.include("tune", tuned(Tune(note="own")), settings=settings)
    wf.edge(look, child)
    return wf.build(start=look)


@pytest.mark.parametrize(
    ("mapper", "begins"),
    [
        (None, {"lane": "normal", "note": "own"}),
        (lambda ctx: Tune(lane=ctx.settings.lane), CAREFUL),
        (lambda: {"lane": "careful"}, CAREFUL),
    ],
    ids=["its own", "of its parent's", "of nothing"],
)
def test_a_child_begins_with_what_is_mapped_for_it_or_with_its_own(
    mapper: Any,  # noqa: ANN401
    begins: JsonObject,
    player: "type[Player]",
) -> None:
    """Its code sees its own settings and none of its parent's."""
    server = TunedServer(settings={"": (0, CAREFUL)}, routes=("tune/pick",))
    assert player(included(mapper), server).play() == Ending(ExitReason.FINISHED)
    entry = next(step["output"] for step in server.steps if step["nodeId"] == "tune")
    assert entry == {
        "schema": "pi-workflows.include-entry.v1",
        "invocation": 1,
        "input": None,
        "settings": begins,
    }
    work = next(step["output"] for step in server.steps if step["nodeId"] == "tune/work")
    assert work == [begins["lane"], 0, "run-1:tune:1"]


def test_settings_that_do_not_fit_the_child_fail_its_entry(player: "type[Player]") -> None:
    server = TunedServer(settings={"": (0, CAREFUL)})
    playing = player(included(lambda: {"lane": "wild"}), server)
    assert playing.play() == Ending(ExitReason.FINISHED)
    assert server.finished is not None
    assert str(server.finished["error"]).startswith("SettingsRejected [SETTINGS_REJECTED]")
    assert server.path[-1] == ("tune", "failed")


def test_a_declared_retry_of_a_settings_route_is_a_new_try(player: "type[Player]") -> None:
    failed = CallResult(outcome=StepOutcome.FAILED, error="no")
    server = TunedServer(settings={"": (0, NORMAL)}, routes=("pick",))
    playing = player(tuned(retry=Retry(attempts=2)), server, results={"pick": [failed]})
    assert playing.play() == Ending(ExitReason.FINISHED)
    calls = [call for call in playing.calls if call.node.node_id == "pick"]
    assert len({call.attempt_id for call in calls}) == 2
    assert server.path == [("work", "ok"), ("pick", "ok"), ("fast", "ok")]
