"""Settings as authors declare them: what is sound, what is refused, what the snapshot says."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from pi_workflows import (
    Allow,
    Ctx,
    Definition,
    DefinitionError,
    Route,
    Settings,
    SettingsChange,
    SettingsMissing,
    SettingsRejected,
    Workflow,
    allow,
)
from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.authoring.settings_copy import SettingsCopy
from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.settings_rules import SETTINGS_BYTES_MAX, Permission
from pi_workflows.protocol.states import ActorType
from pi_workflows.runner.children import FoundChildren
from pi_workflows.runner.sources import DISK_SOURCES


class Lane(StrEnum):
    normal = "normal"
    careful = "careful"


class Tune(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lane: Lane = Lane.normal
    note: str = ""

    @field_validator("note")
    @classmethod
    def _short(cls, note: str) -> str:
        return note.strip()


class In(BaseModel):
    lane: Lane = Lane.normal


PATHS: Final = [
    allow("/lane", read=["session", "human"], replace=["session", "human"]),
    allow("/note", replace=["human"]),
]


def tuned(settings: Settings[Tune] | None = None, name: str = "tune") -> Definition[Any]:
    wf = Workflow(name, input=In, settings=settings or Settings(Tune, initial=Tune(), paths=PATHS))

    @wf.settings_route()
    def pick(ctx: Ctx[In, Tune]) -> Route[Lane]:
        return Route(route=ctx.settings.lane)

    @wf.compute()
    def fast() -> str:
        return "fast"

    @wf.compute()
    def slow() -> str:
        return "slow"

    wf.route(pick, {Lane.normal: fast, Lane.careful: slow})
    wf.exit("fast", fast)
    wf.exit("slow", slow)
    return wf.build(start=pick)


def codes(build: Callable[[], object]) -> list[tuple[str, str]]:
    with pytest.raises(DefinitionError) as caught:
        build()
    return [(problem.code, problem.message) for problem in caught.value.problems]


def refused(**declared: Any) -> str:  # noqa: ANN401 - wrong on purpose
    """The one problem of settings that are declared so."""
    settings: Settings[Tune] = Settings(Tune, **{"initial": Tune(), **declared})
    (code, message), *more = codes(lambda: tuned(settings))
    assert (code, more) == ("DEFINITION_INVALID", [])
    return message


def test_the_snapshot_holds_rules_and_routes_and_the_digest_follows_them() -> None:
    definition = tuned(Settings(Tune, initial=Tune(), paths=PATHS, description="how careful"))
    snapshot = DefinitionSnapshot.parse(definition.snapshot())
    rules = snapshot.settings_of("")
    assert rules is not None
    assert rules.description == "how careful"
    assert rules.allow(("lane",), Permission.REPLACE, ActorType.SESSION)
    assert not rules.allow(("note",), Permission.REPLACE, ActorType.SESSION)
    assert [node for node, it in snapshot.nodes.items() if it.settings_route] == ["pick"]
    assert definition.digest() != tuned(Settings(Tune, initial=Tune())).digest()
    assert "Tune" not in str(definition.snapshot())


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ([allow("lane", read=["human"])], "begins with"),
        ([allow("/la~ne", read=["human"])], "followed by 0 or 1"),
        ([allow("/lane")], "says nothing"),
        ([allow("/lane", read=[])], "at least one actor"),
        ([allow("/lane", read=cast("list[str]", "human"))], "at least one actor"),
        ([allow("/lane", read=["nobody"])], "unknown actor"),
        ([allow("/lane", read=["human"]), allow("/lane", add=["human"])], "contradict"),
        (["/lane"], "allow(...)"),
        ("/lane", "allow(...)"),
        ([Allow(cast("str", 5), {Permission.READ: ["human"]})], "is a text"),
    ],
)
def test_a_wrong_rule_is_refused(paths: Any, says: str) -> None:  # noqa: ANN401
    assert says in refused(paths=paths)


@pytest.mark.parametrize("description", ["", "  ", 5])
def test_an_empty_description_is_refused(description: object) -> None:
    assert "description" in refused(description=description)


async def _later() -> Tune:
    return Tune()


@pytest.mark.parametrize(
    "declared",
    [
        {"initial": lambda _one, _two: Tune()},
        {"initial": _later},
        {"validate_change": lambda: None},
        {"validate_change": 5},
        {"validate_change": _later},
    ],
    ids=["two arguments", "async", "no argument", "no function", "async check"],
)
def test_a_callback_of_a_wrong_kind_is_refused(declared: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        tuned(Settings(Tune, **cast("Any", {"initial": Tune(), **declared})))


def test_what_is_no_settings_is_refused_where_a_workflow_is_given_it() -> None:
    def build() -> object:
        wf = Workflow("flow", settings=cast("Any", Tune()))

        @wf.compute()
        def node() -> int:
            return 1

        return wf.build(start=node)

    assert codes(build) == [
        ("DEFINITION_INVALID", "settings is what Settings(Model, initial=...) gives.")
    ]


def test_a_settings_route_without_settings_is_refused() -> None:
    def build() -> object:
        wf = Workflow("flow")

        @wf.settings_route()
        def node() -> int:
            return 1

        return wf.build(start=node)

    ((code, message),) = codes(build)
    assert code == "DEFINITION_INVALID"
    assert "Workflow(settings=" in message


def included(child: Definition[Any], *, mapper: bool) -> Definition[Any]:
    wf = Workflow("parent")

    @wf.compute()
    def look() -> int:
        return 1

    mount = wf.include("tune", child, settings=Tune if mapper else None)
    wf.edge(look, mount)
    parent = wf.build(start=look)
    nowhere = parent.source.parent
    return compile_definition(parent, FoundChildren(DISK_SOURCES, nowhere, nowhere))


def test_settings_for_a_child_without_settings_are_refused() -> None:
    wf = Workflow("plain")

    @wf.compute()
    def node() -> int:
        return 1

    wf.exit("done", node)
    child = wf.build(start=node)
    ((code, message),) = codes(lambda: included(child, mapper=True))
    assert code == "SETTINGS_MAP_WITHOUT_SETTINGS"
    assert '"plain", which declares none' in message


def test_the_settings_of_a_child_stand_in_the_snapshot_of_its_mount() -> None:
    snapshot = DefinitionSnapshot.parse(included(tuned(), mapper=True).snapshot())
    assert snapshot.settings_of("") is None
    assert snapshot.settings_of("tune") is not None
    assert snapshot.nodes["tune/pick"].settings_route


@pytest.mark.parametrize(
    "initial",
    [
        Tune(lane=Lane.careful),
        lambda given: Tune(lane=given.lane),
        lambda: Tune(lane=Lane.careful),
    ],
    ids=["a value", "of the input", "of nothing"],
)
def test_initial_settings_are_a_value_or_made_of_the_input(initial: Any) -> None:  # noqa: ANN401
    definition = tuned(Settings(Tune, initial=initial))
    assert definition.begin_settings({"lane": "careful"}) == {"lane": "careful", "note": ""}


@pytest.mark.parametrize(
    "initial",
    [lambda: 5, lambda: {"lane": "none"}, lambda: Tune(note="x" * SETTINGS_BYTES_MAX)],
    ids=["no model", "an unknown member", "too large"],
)
def test_initial_settings_that_do_not_fit_are_rejected(initial: Any) -> None:  # noqa: ANN401
    definition = tuned(Settings(Tune, initial=initial))
    with pytest.raises(SettingsRejected) as caught:
        definition.begin_settings({"lane": "normal"})
    assert caught.value.code == "SETTINGS_REJECTED"
    assert 'workflow "tune"' in caught.value.message


def test_initial_settings_name_the_rules_that_they_break() -> None:
    definition = tuned(Settings(Tune, initial=cast("Any", lambda: {"lane": "wild", "note": 5})))
    with pytest.raises(SettingsRejected) as caught:
        definition.begin_settings({"lane": "normal"})
    assert caught.value.why.splitlines() == [
        "its model says:",
        "  lane: Input should be 'normal' or 'careful'",
        "  note: Input should be a valid string",
    ]


@pytest.mark.parametrize(
    ("initial", "says"),
    [
        (5, "input: Input should be a valid dictionary or instance of Tune"),
        ({"lane": 3}, "lane: Input should be 'normal' or 'careful'"),
        (Tune(note="x" * SETTINGS_BYTES_MAX), "bytes of JSON"),
    ],
    ids=["no model", "an unknown member", "too large"],
)
def test_a_constant_that_does_not_fit_is_found_when_it_is_declared(
    initial: object, says: str
) -> None:
    message = refused(initial=initial)
    assert message.startswith("its initial settings do not fit: ")
    assert says in message


class Limit(BaseModel):
    cpu: int = 1


class Wide(BaseModel):
    limit: Limit | None = None
    named: dict[str, Limit] = {}
    listed: list[Limit] = []
    pair: tuple[int, Limit] = (1, Limit())
    anything: Any = None
    wire: int = Field(default=1, alias="onWire")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/limit/cpu",
        "/named/x/cpu",
        "/listed/-",
        "/listed/0/cpu",
        "/pair/1/cpu",
        "/anything/at/all",
        "/onWire",
    ],
)
def test_a_path_to_what_the_model_may_hold_is_sound(path: str) -> None:
    rules = [allow(path, replace=["human"])]
    tuned_by(Settings(Wide, initial=Wide(), paths=rules))


@pytest.mark.parametrize(
    "path", ["/nope", "/limit/nope", "/limit/cpu/deep", "/named/x/nope", "/listed/cpu", "/wire"]
)
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    settings = Settings(Wide, initial=Wide(), paths=[allow(path, replace=["human"])])
    text = f'the settings path "{path}" leads nowhere: Wide has no such part.'
    assert codes(lambda: tuned_by(settings)) == [("DEFINITION_INVALID", text)]


def tuned_by(settings: Settings[Any]) -> Definition[Any]:
    wf = Workflow("wide", settings=settings)

    @wf.compute()
    def node() -> int:
        return 1

    return wf.build(start=node)


def test_everything_wrong_with_one_rule_is_told() -> None:
    rule = allow("lane", read=["nobody"], add=[], replace=["human"])
    settings = Settings(Tune, initial=Tune(), paths=[rule])
    found = [message for _, message in codes(lambda: tuned_by(settings))]
    assert [
        any(word in message for message in found)
        for word in ("begins with", "unknown actor", "at least one actor")
    ] == [True, True, True]


def check(
    after: JsonValue, validate: Callable[[SettingsChange[Tune]], object] | None = None
) -> None:
    settings = tuned(Settings(Tune, initial=Tune(), validate_change=validate)).settings
    assert settings is not None
    before: JsonValue = {"lane": "normal", "note": ""}
    settings.check_change(before, after, "human", "cli", [])


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"lane": "wild", "note": ""}, "lane"),
        ({"lane": "normal", "note": "", "more": 1}, "more"),
        ({"lane": "normal", "note": " spaces "}, "would alter"),
        ({"lane": "normal"}, "would alter"),
        ("normal", "input"),
    ],
)
def test_what_the_model_refuses_or_would_alter_is_rejected(after: JsonValue, says: str) -> None:
    """Case: B71."""
    check({"lane": "careful", "note": "fine"})
    with pytest.raises(SettingsRejected, match=says):
        check(after)


def test_a_check_of_the_author_sees_both_and_may_refuse() -> None:
    seen: list[SettingsChange[Tune]] = []

    def once(change: SettingsChange[Tune]) -> None:
        seen.append(change)
        if change.after.lane == change.before.lane:
            raise ValueError("nothing would change")

    check({"lane": "careful", "note": ""}, once)
    with pytest.raises(ValueError, match="nothing would change"):
        check({"lane": "normal", "note": ""}, once)
    assert [change.after.lane for change in seen] == ["careful", "normal"]
    assert (seen[0].actor, seen[0].source) == ("human", "cli")


def context(copy: SettingsCopy[Tune] | None) -> Ctx[None, Tune]:
    return Ctx(
        run_id="run-1",
        input=None,
        outputs={},
        results={},
        visit=1,
        codecs={},
        cancelled=lambda: False,
        settings=copy,
    )


def test_a_node_reads_its_copy_with_its_place_and_number() -> None:
    ctx = context(SettingsCopy("run-1:$root:1", 3, Tune(lane=Lane.careful)))
    assert ctx.settings.lane is Lane.careful
    assert (ctx.settings_scope_id, ctx.settings_change_number) == ("run-1:$root:1", 3)


def test_settings_of_a_workflow_without_any_are_missing() -> None:
    with pytest.raises(SettingsMissing):
        _ = context(None).settings
