"""Changes of settings in the store: numbered, chained, once each, and only while a run goes on."""

from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.states import ActorType
from store import run_restarting
from store.authority import Permit
from store.errors import IdempotencyConflictError, RunUnknownError
from store.resources import Actor
from store.run_resuming import RunEndedError
from store.settings_chain import ChainBroken
from store.settings_changing import ChangedSettings
from store.settings_errors import (
    RunNotStartedError,
    SettingsMoved,
    SettingsStaleError,
    SettingsUnknownError,
)
from tests.store.writes.conftest import CONTROL, WrittenRun
from tests.store.writes.tuned import INITIAL, change, scopes, sound, tuned_run

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore


@pytest.fixture
def run(store: "WriteStore") -> WrittenRun:
    """A queued run that has settings, as what it includes has."""
    return tuned_run(store)


def test_a_run_begins_with_its_settings_at_change_zero_and_without_an_event(
    run: WrittenRun,
) -> None:
    assert scopes(run) == [("run-1:$root:1", "", 1, 0)]
    assert run.events() == ["run_created"]
    sound(run)


def test_a_change_that_alters_nothing_takes_a_number_too(run: WrittenRun) -> None:
    run.begin()
    change(run)
    assert change(run, request="request-2", made_of=1).change_number == 2
    assert scopes(run) == [("run-1:$root:1", "", 1, 2)]
    sound(run)


def test_change_n_is_revision_n_and_one_event(run: WrittenRun) -> None:
    """The run itself has not moved: a runner at work is not disturbed.

    Case: A28.
    """
    run.begin()
    before = run.revision
    assert change(run) == ChangedSettings("run-1:$root:1", 1, adopted=False)
    assert change(run, "normal", request="request-2", made_of=1).change_number == 2
    assert scopes(run) == [("run-1:$root:1", "", 1, 2)]
    assert run.revision == before
    events = run.store.rows(
        "SELECT e.event_type, e.resource_revision, e.actor_type FROM events AS e"
        " JOIN resources AS o USING (resource_id) WHERE o.resource_type = 'settings'"
    )
    assert events == [("settings.changed", 1, "human"), ("settings.changed", 2, "human")]
    sound(run)


def test_the_same_request_adopts_and_other_content_under_its_id_conflicts(
    run: WrittenRun,
) -> None:
    """Actor, source and patch are the content.

    Case: B73.
    """
    run.begin()
    change(run)
    before = run.store.dump()
    assert change(run) == ChangedSettings("run-1:$root:1", 1, adopted=True)
    for other in (
        {"lane": "normal"},
        {"source": "elsewhere"},
        {"actor": Actor(ActorType.SESSION, "session-1")},
    ):
        with pytest.raises(IdempotencyConflictError):
            change(run, **other)
    assert run.store.dump() == before


def test_a_stale_expected_number_is_refused_and_without_one_the_newest_is_taken(
    run: WrittenRun,
) -> None:
    """Case: B72."""
    run.begin()
    change(run)
    with pytest.raises(SettingsStaleError) as caught:
        change(run, "normal", request="request-2", expected=0)
    assert caught.value.fields() == {"expected": 0, "changeNumber": 1}
    with pytest.raises(SettingsMoved):
        change(run, "normal", request="request-2")
    assert change(run, "normal", request="request-2", made_of=1).change_number == 2
    assert change(run, request="request-3", made_of=2, expected=2).change_number == 3
    sound(run)


def test_settings_of_a_queued_and_of_an_ended_run_are_not_changed(run: WrittenRun) -> None:
    """A paused or parked one's are.

    Case: B76.
    """
    before = run.store.dump()
    with pytest.raises(RunNotStartedError):
        change(run)
    assert run.store.dump() == before
    run.begin()
    run.park()
    assert change(run).change_number == 1
    run.cancel()
    before = run.store.dump()
    with pytest.raises(RunEndedError):
        change(run, "normal", request="request-2", made_of=1)
    assert run.store.dump() == before


def test_settings_that_are_not_there_cannot_be_changed(
    run: WrittenRun, store: "WriteStore"
) -> None:
    run.begin()
    plain = store.create("run-2").begin()
    with pytest.raises(SettingsUnknownError) as none:
        change(plain)
    assert str(none.value) == (
        "the workflow of run-2 declares no settings of its own; "
        "those of what it includes, if any: pi-workflows settings show run-2"
    )
    for scope in ("run-1:sub:1", "run-2:$root:1", ""):
        with pytest.raises(SettingsUnknownError, match="the ids of those that it has"):
            change(run, scope=scope)
    with pytest.raises(RunUnknownError):
        change(WrittenRun(store, "run-3"))


def test_a_restart_begins_with_the_initial_settings_and_no_change(run: WrittenRun) -> None:
    run.begin()
    change(run)
    run.park()
    run.cancel()
    permit = Permit(CONTROL.actor, expected_revision=run.revision)
    child = run.store.do(run_restarting.restart_run, permit, run.run_id).run
    restarted = WrittenRun(run.store, child.run_id, run.definition)
    assert scopes(restarted) == [(f"{child.run_id}:$root:1", "", 1, 0)]
    (told,) = restarted.begin().advance(restarted.started("work")).bindings
    assert told is not None
    assert told.value == INITIAL
    sound(restarted)


TAMPERED: Final = {
    "a value that no change made": "UPDATE workflow_settings SET current_hash ="
    " (SELECT definition_hash FROM workflow_definitions)",
    "another patch": "UPDATE workflow_setting_changes SET patch_hash ="
    " (SELECT patch_hash FROM workflow_setting_changes WHERE change_number = 1)"
    " WHERE change_number = 2",
    "another result": "UPDATE workflow_setting_changes SET after_hash = before_hash"
    " WHERE change_number = 1",
    "a gap": "DELETE FROM workflow_setting_changes WHERE change_number = 1",
    "a result that fits its neighbours": "UPDATE workflow_setting_changes SET after_hash ="
    " (SELECT definition_hash FROM workflow_definitions) WHERE change_number = 2;"
    "UPDATE workflow_settings SET current_hash ="
    " (SELECT definition_hash FROM workflow_definitions)",
    "other bytes of the initial value": 'UPDATE blobs SET content = CAST(\'{"lane":"wild"}\''
    " AS BLOB), byte_length = 15 WHERE blob_hash = (SELECT initial_hash FROM workflow_settings)",
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_tampered_chain_of_changes_is_found(how: str, run: WrittenRun) -> None:
    """Case: B77."""
    run.begin()
    change(run)
    change(run, "normal", request="request-2", made_of=1)
    sound(run)
    run.store.alter(TAMPERED[how])
    with pytest.raises(ChainBroken, match=r"run-1:\$root:1"):
        sound(run)
