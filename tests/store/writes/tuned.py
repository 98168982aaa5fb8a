"""A run that has settings, and hands that change them."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import ActorType
from store import settings_chain, settings_changing, verification
from store.authority import Permit
from store.blobs import Blob
from store.resources import Actor
from store.run_creation import MountSource, create_run
from store.settings_chain import ChainPlace
from store.settings_changing import ChangedSettings, NewChange
from tests.store.writes.conftest import CONTROL, WrittenRun

if TYPE_CHECKING:
    from store.transaction import Reading
    from tests.store.writes.conftest import WriteStore

RULES: Final[JsonObject] = {"paths": [{"path": "", "read": ["human"], "replace": ["human"]}]}
GRAPH: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "tune",
    "startAt": "work",
    "maxSteps": 20,
    "nodes": [
        {"id": "work", "type": "compute"},
        {"id": "pick", "type": "compute", "settingsRoute": True},
        {"id": "sub", "type": "compute", "role": "entry"},
        {"id": "sub/inner", "type": "compute", "mountPath": "sub", "localId": "inner"},
        {
            "id": "sub/__piw_exit_done",
            "type": "compute",
            "mountPath": "sub",
            "localId": "__piw_exit_done",
            "role": "exit",
            "exit": "done",
            "validated": False,
        },
    ],
    "edges": [
        {"from": "work", "to": "pick"},
        {
            "from": "pick",
            "switch": {"on": "$.route", "cases": {"normal": "work", "careful": "sub"}},
        },
        {"from": "sub", "to": "sub/inner"},
        {"from": "sub/inner", "to": "sub/__piw_exit_done"},
        {"from": "sub/__piw_exit_done", "to": "work"},
    ],
    "mounts": [
        {
            "path": "sub",
            "name": "sub",
            "startAt": "inner",
            "maxSteps": 20,
            "exits": ["done"],
            "settings": RULES,
        }
    ],
    "settings": RULES,
}
SUB: Final = SourceIdentity(SourceKind.FILE, "/projects/one/sub.py", "cd" * 32)
INITIAL: Final[JsonObject] = {"lane": "normal"}
HUMAN: Final = Actor(ActorType.HUMAN)
CAREFUL: Final[JsonValue] = [{"op": "replace", "path": "/lane", "value": "careful"}]


def tuned_run(store: "WriteStore") -> WrittenRun:
    """A queued run that has settings, as what it includes has."""
    new = replace(
        store.new_run("run-1"),
        snapshot=Blob.of_json(GRAPH),
        settings=Blob.of_json(INITIAL),
        mounts=(MountSource("sub", SUB),),
    )
    store.do(create_run, CONTROL, new)
    return WrittenRun(store, "run-1", DefinitionSnapshot.parse(GRAPH))


def change(
    run: WrittenRun,
    lane: str = "careful",
    *,
    request: str = "request-1",
    made_of: int = 0,
    expected: int | None = None,
    scope: str | None = None,
    actor: Actor = HUMAN,
    source: str = "cli",
) -> ChangedSettings:
    patch: JsonValue = [{"op": "replace", "path": "/lane", "value": lane}]
    wanted = NewChange(
        run.run_id,
        scope,
        request,
        source,
        Blob.of_json(patch),
        made_of,
        Blob.of_json({"lane": lane}),
    )
    permit = Permit(actor, None, expected)
    return run.store.do(settings_changing.change_settings, permit, wanted)


def scopes(run: WrittenRun) -> list[tuple[str, str, int, int]]:
    """Id, mount, invocation and change number of all settings of a run."""
    return run.store.rows(
        "SELECT w.scope_id, w.mount_path, w.invocation, o.revision FROM workflow_settings AS w"
        " JOIN resources AS o USING (resource_id) WHERE w.origin_run_id = :id"
        " ORDER BY w.created_at, w.rowid",
        id=run.run_id,
    )


def sound(run: WrittenRun) -> None:
    """The chain replays, and the file breaks no invariant."""

    def check(reading: "Reading") -> None:
        settings_chain.check_links(reading, run.run_id)
        place: ChainPlace | None = ChainPlace()
        while place is not None:
            place = settings_chain.replay(reading, run.run_id, place, 1)
        assert verification.violations(reading) == []

    run.store.do(check)
