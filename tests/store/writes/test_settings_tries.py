"""Settings and the tries that run with them: what they are bound to, and what runs again."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes
from pi_workflows.protocol.states import ActorType, MountRole, StepOutcome
from store import projection, run_advance, run_views, settings_scopes
from store.blobs import Blob
from store.errors import ProposalRefused
from store.proposals import CrossMount, FinishAttempt
from tests.store.writes.conftest import HOST, WrittenRun
from tests.store.writes.test_advance import refuse
from tests.store.writes.test_contents import patiently, staged
from tests.store.writes.tuned import INITIAL, change, scopes, sound, tuned_run

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore


@pytest.fixture
def run(store: "WriteStore") -> WrittenRun:
    """A queued run that has settings, as what it includes has."""
    return tuned_run(store)


def bindings(run: WrittenRun) -> list[tuple[str, str | None, int | None]]:
    """Node, settings and their change number of every try, oldest first."""
    return run.store.rows(
        "SELECT node_id, settings_scope_id, settings_change_number FROM node_attempts"
        " WHERE run_id = :id ORDER BY created_at, rowid",
        id=run.run_id,
    )


def test_a_try_keeps_its_copy_and_the_next_one_sees_the_change(run: WrittenRun) -> None:
    """A value that the runner knows is not sent again.

    Case: B74.
    """
    run.begin()
    work = run.started("work")
    (told,) = run.advance(work).bindings
    assert told is not None
    assert (told.change_number, told.value, told.known) == (0, INITIAL, False)
    change(run)
    route = replace(run.started("pick"), settings_known=0)
    _, told = run.advance(run.finished(work, 1), route).bindings
    assert told is not None
    assert (told.change_number, told.value) == (1, {"lane": "careful"})
    again = replace(run.started("sub"), settings_known=1)
    run.advance(run.finished(route, {"route": "careful"}))
    (told,) = run.advance(again).bindings
    assert told is not None
    assert told.known
    assert bindings(run) == [
        ("work", "run-1:$root:1", 0),
        ("pick", "run-1:$root:1", 1),
        ("sub", "run-1:$root:1", 1),
    ]


def at_the_route(run: WrittenRun) -> FinishAttempt:
    """A run whose settings route is under way; what it has made of the initial settings."""
    run.begin()
    work = run.started("work")
    run.advance(work)
    route = run.started("pick")
    run.advance(run.finished(work, 1), route)
    return run.finished(route, {"route": "normal"})


def test_a_settings_route_runs_again_alone_after_a_change(run: WrittenRun) -> None:
    """The same try, the same transaction that would have recorded it; what followed is dropped.

    Case: B75.
    """
    finished = at_the_route(run)
    change(run)
    following = run.started("work", visit=2)
    told = run.advance(finished, following)
    bound, dropped = told.bindings
    assert bound is not None
    assert (bound.reruns, bound.value, dropped) == (True, {"lane": "careful"}, None)
    assert not told.progressed
    assert run.events()[-1] == "settings_route_retried"
    assert bindings(run) == [("work", "run-1:$root:1", 0), ("pick", "run-1:$root:1", 1)]
    output: JsonObject = {"route": "careful"}
    anew = replace(finished, output=Blob.of_json(output), output_value=output)
    assert run.advance(anew, run.started("sub")).bindings[0] is None
    assert run.events()[-2:] == ["node_finished", "node_started"]
    sound(run)


def test_a_failed_settings_route_runs_again_and_one_out_of_time_does_not(
    run: WrittenRun,
) -> None:
    finished = at_the_route(run)
    change(run)
    error = Blob.of_text("no")
    failed = replace(
        finished, outcome=StepOutcome.FAILED, output=None, error=error, error_text="no"
    )
    (bound,) = run.advance(failed).bindings
    assert bound is not None
    assert bound.reruns
    change(run, "normal", request="request-2", made_of=1)
    run.advance(replace(failed, outcome=StepOutcome.TIMED_OUT))
    assert run.events()[-1] == "node_failed"


def test_a_settings_route_whose_settings_stand_is_recorded(run: WrittenRun) -> None:
    finished = at_the_route(run)
    assert run.advance(finished).progressed
    assert "settings_route_retried" not in run.events()


def test_the_answer_of_a_rerun_is_repeated(run: WrittenRun) -> None:
    finished = at_the_route(run)
    change(run)
    message = run.message(finished, message_id="m-route")
    told = run.answer(message).result
    assert told == {
        "transitions": [
            {
                "settings": {
                    "scopeId": "run-1:$root:1",
                    "changeNumber": 1,
                    "value": {"lane": "careful"},
                },
                "reruns": True,
            }
        ]
    }
    assert run.answer(message).result == told


def entered(run: WrittenRun, settings: JsonValue, *, visit: int = 1) -> CrossMount:
    entry = run.started("sub", visit=visit)
    run.advance(entry)
    output: JsonObject = {
        "schema": "pi-workflows.include-entry.v1",
        "invocation": visit,
        "input": None,
        "settings": settings,
    }
    return CrossMount(entry.attempt_id, "sub", MountRole.ENTRY, Blob.of_json(output), output)


def to_the_mount(run: WrittenRun, *, visit: int = 1) -> None:
    made: list[tuple[str, JsonValue]] = [("work", 1), ("pick", {"route": "careful"})]
    for node_id, output in made:
        start = run.started(node_id, visit=visit)
        run.advance(start)
        run.advance(run.finished(start, output))


def test_each_invocation_of_an_included_workflow_has_settings_of_its_own(
    run: WrittenRun,
) -> None:
    """They begin with the entry, in its commit; those of others never mix with them."""
    run.begin()
    to_the_mount(run)
    run.advance(entered(run, {"lane": "first"}))
    inner = run.started("sub/inner")
    (told,) = run.advance(inner).bindings
    assert told is not None
    assert (told.scope_id, told.value) == ("run-1:sub:1", {"lane": "first"})
    assert change(run, scope="run-1:sub:1").change_number == 1
    run.advance(run.finished(inner, 1))
    leaving = run.started("sub/__piw_exit_done")
    run.advance(leaving)
    left: JsonObject = {"exit": "done", "output": 1}
    run.advance(
        CrossMount(leaving.attempt_id, leaving.node_id, MountRole.EXIT, Blob.of_json(left), left)
    )
    to_the_mount(run, visit=2)
    run.advance(entered(run, {"lane": "second"}, visit=2))
    again = run.started("sub/inner", visit=2)
    (told,) = run.advance(again).bindings
    assert told is not None
    assert (told.scope_id, told.change_number, told.value) == (
        "run-1:sub:2",
        0,
        {"lane": "second"},
    )
    assert scopes(run) == [
        ("run-1:$root:1", "", 1, 0),
        ("run-1:sub:1", "sub", 1, 1),
        ("run-1:sub:2", "sub", 2, 0),
    ]
    sound(run)


@pytest.mark.parametrize("settings", [{"lane": 'ä"/\u0001'}, ["x", 1.5, None], "text", None, 1e21])
def test_settings_are_found_in_an_entry_that_is_too_large_for_a_message(
    settings: JsonValue, run: WrittenRun
) -> None:
    """The input of the child is large; what its settings begin with stands beside it."""
    run.begin()
    to_the_mount(run)
    small = entered(run, settings)
    assert isinstance(small.output_value, dict)
    content = canonical_bytes({**small.output_value, "input": "x" * 200_000})
    large = replace(small, output=staged(content), output_value=None)
    message = run.message(large)
    patiently(run.store, lambda tx: run_advance.advance(tx, run.permit, message))
    (told,) = run.advance(run.started("sub/inner")).bindings
    assert told is not None
    assert told.value == settings
    sound(run)


def test_an_entry_without_the_settings_that_are_declared_is_refused(run: WrittenRun) -> None:
    run.begin()
    to_the_mount(run)
    cross = entered(run, None)
    assert isinstance(cross.output_value, dict)
    less = {name: value for name, value in cross.output_value.items() if name != "settings"}
    refuse(run, replace(cross, output=Blob.of_json(less), output_value=less))
    large: JsonObject = {**cross.output_value, "settings": "x" * 262_143}
    too_large = replace(cross, output=Blob.of_json(large), output_value=large)
    with pytest.raises(ProposalRefused, match="too large"):
        run.advance(too_large)
    assert len(scopes(run)) == 1


def test_the_settings_of_nobody_are_told_to_no_runner(store: "WriteStore") -> None:
    """A workflow without settings costs no query and no word."""
    run = store.create().begin()
    start = run.started("fetch")
    assert run.advance(start).bindings == (None,)
    assert settings_scopes.current(store.do(lambda tx: tx), run.run_id) is None
    assert HOST.actor_type is ActorType.HOST


def test_the_state_of_a_run_names_the_settings_of_its_steps_and_of_what_works(
    run: WrittenRun,
) -> None:
    finished = at_the_route(run)
    change(run)
    state = run.store.do(projection.run_state, run.run_id)
    initial = Blob.of_json(INITIAL).blob_hash.hex()
    assert state["currentSettingsScopeId"] == "run-1:$root:1"
    assert (state["currentSettingsChangeNumber"], state["currentSettingsHash"]) == (0, initial)
    run.advance(finished)
    view = run.store.do(run_views.run_view, run.run_id)
    (scope,) = cast("list[JsonObject]", view["settings"])
    assert scope["settings"] == {"lane": "careful"}
    (step,) = cast("list[JsonObject]", state["steps"])
    assert step["settingsScopeId"] == "run-1:$root:1"
    assert (step["settingsChangeNumber"], step["settingsHash"]) == (0, initial)
