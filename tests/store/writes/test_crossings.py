"""Entering and leaving included workflows: what the server lets pass, and what it refuses."""

import dataclasses
from typing import TYPE_CHECKING, Final, cast

import pytest

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import MountRole, RunStatus
from store import run_history
from store.blobs import Blob
from store.errors import ProposalRefused
from store.projection import run_state
from store.proposals import CrossMount, FinishRun, StartAttempt
from store.run_creation import MountSource, create_run
from store.transaction import Reading
from tests.store.writes.conftest import CONTROL, WrittenRun
from tests.store.writes.test_advance import refuse

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore

REPAIR: Final = SourceIdentity(SourceKind.FILE, "/projects/one/repair_flow.py", "cd" * 32)
GRAPH: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "parent",
    "startAt": "look",
    "maxSteps": 5,
    "nodes": [
        {"id": "look", "type": "compute"},
        {"id": "fix", "type": "compute", "role": "entry"},
        {"id": "fix/work", "type": "compute", "mountPath": "fix", "localId": "work"},
        {"id": "fix/good", "type": "compute", "mountPath": "fix", "localId": "good"},
        {
            "id": "fix/__piw_exit_fixed",
            "type": "compute",
            "mountPath": "fix",
            "localId": "__piw_exit_fixed",
            "role": "exit",
            "exit": "fixed",
            "validated": False,
        },
        {
            "id": "fix/__piw_exit_checked",
            "type": "compute",
            "mountPath": "fix",
            "localId": "__piw_exit_checked",
            "role": "exit",
            "exit": "checked",
            "validated": True,
        },
    ],
    "edges": [
        {"from": "look", "to": "fix"},
        {"from": "fix", "to": "fix/work"},
        {
            "from": "fix/work",
            "switch": {
                "on": "$.next",
                "cases": {"good": "fix/good", "bad": "fix/__piw_exit_checked"},
            },
        },
        {"from": "fix/good", "to": "fix/__piw_exit_fixed"},
        {"from": "fix/__piw_exit_fixed", "to": "look"},
    ],
    "mounts": [{"path": "fix", "name": "repair", "startAt": "work", "maxSteps": 2, "exits": []}],
    "settings": None,
}
GOOD: Final[JsonObject] = {"next": "good"}
BAD: Final[JsonObject] = {"next": "bad"}
COUNTS: Final = ("nodeId", "visit", "invocationVisits", "authoredCount")
OUT_OF_STEPS: Final = FinishRun(RunStatus.FAILED, None, Blob.of_text("MAX_STEPS: enough"))


@pytest.fixture
def run(store: "WriteStore") -> WrittenRun:
    """A run of the parent whose `look` is recorded."""
    new = dataclasses.replace(
        store.new_run("run-1"),
        snapshot=Blob.of_json(GRAPH),
        mounts=(MountSource("fix", REPAIR),),
    )
    store.do(create_run, CONTROL, new)
    made = WrittenRun(store, "run-1", DefinitionSnapshot.parse(GRAPH)).begin()
    work(made, "look")
    return made


def work(run: WrittenRun, node_id: str, output: JsonValue = None, *, visit: int = 1) -> None:
    start = run.started(node_id, visit=visit)
    run.advance(start, run.finished(start, output))


def crossed(start: StartAttempt, output: JsonValue, role: MountRole) -> CrossMount:
    return CrossMount(start.attempt_id, start.node_id, role, Blob.of_json(output), output)


def entry(invocation: int = 1) -> JsonObject:
    return {
        "schema": "pi-workflows.include-entry.v1",
        "invocation": invocation,
        "input": {"issue": "x"},
    }


def enter(run: WrittenRun, visit: int = 1) -> None:
    start = run.started("fix", visit=visit)
    run.advance(start, crossed(start, entry(visit), MountRole.ENTRY))


def leave(run: WrittenRun, output: JsonValue, *, name: str = "fixed", visit: int = 1) -> None:
    start = run.started(f"fix/__piw_exit_{name}", visit=visit)
    run.advance(start, crossed(start, {"exit": name, "output": output}, MountRole.EXIT))


def test_an_entry_and_an_exit_are_steps_with_events_of_their_own(run: WrittenRun) -> None:
    enter(run)
    assert run.events()[-2:] == ["node_started", "include_entered"]
    work(run, "fix/work", GOOD)
    work(run, "fix/good", "done")
    leave(run, "done")
    assert run.events()[-2:] == ["node_started", "include_exited"]
    counts = run.store.rows("SELECT authored_count FROM run_steps ORDER BY step_index")
    assert counts == [(1,), (1,), (2,), (3,), (3,)]


def test_resuming_runner_is_told_visits_of_the_run_and_of_the_current_invocation(
    run: WrittenRun,
) -> None:
    """Also of nodes that the current invocation has not reached; and steps of authored nodes."""
    enter(run)
    work(run, "fix/work", GOOD)
    work(run, "fix/good", "done")
    leave(run, "done")
    work(run, "look", visit=2)
    enter(run, visit=2)
    work(run, "fix/work", GOOD, visit=2)
    reading = Reading(run.store.writer.connection, run.store.now)
    page = run_history.page(reading, run.run_id, run.definition)
    told = [
        tuple(cast("JsonObject", step)[name] for name in (*COUNTS, "stepIndex"))
        for step in page.steps
    ]
    assert told == [
        ("fix/good", 1, 0, 3, 3),
        ("fix/__piw_exit_fixed", 1, 0, 3, 4),
        ("look", 2, 2, 4, 5),
        ("fix", 2, 2, 4, 6),
        ("fix/work", 2, 1, 5, 7),
    ]


def test_no_node_of_a_child_runs_before_its_mount_is_entered(run: WrittenRun) -> None:
    """Case: B41."""
    assert "not the next" in refuse(run, run.started("fix/work"))
    assert "not the next" in refuse(run, run.started("fix/__piw_exit_fixed"))
    enter(run)
    assert "not the next" in refuse(run, run.started("fix", visit=2))
    work(run, "fix/work", GOOD)
    assert "not the next" in refuse(run, run.started("fix/__piw_exit_checked"))


@pytest.mark.parametrize(
    "output",
    [
        {},
        entry(2),
        entry() | {"schema": "pi-workflows.include-entry.v2"},
        entry() | {"more": 1},
        {key: value for key, value in entry().items() if key != "input"},
        "in",
    ],
)
def test_an_entry_says_what_it_has_to(run: WrittenRun, output: JsonValue) -> None:
    """Its schema, its invocation, and an input; nothing else."""
    start = run.started("fix")
    run.advance(start)
    text = refuse(run, crossed(start, output, MountRole.ENTRY))
    assert text.endswith("the transition's output is not what it has to be")


@pytest.mark.parametrize(
    "output",
    [
        {"exit": "fixed", "output": "thin air"},
        {"exit": "other", "output": "done"},
        {"exit": "fixed", "output": "done", "more": 1},
        {"exit": "fixed"},
        "done",
        {"exit": "fixed", "output": {"exit": "fixed", "output": "done"}},
    ],
)
def test_a_fabricated_output_of_an_exit_is_refused(run: WrittenRun, output: JsonValue) -> None:
    """Nothing is written.

    Case: B41.
    """
    enter(run)
    work(run, "fix/work", GOOD)
    work(run, "fix/good", "done")
    start = run.started("fix/__piw_exit_fixed")
    run.advance(start)
    text = refuse(run, crossed(start, output, MountRole.EXIT))
    assert text.endswith("the exit carries another output than was accepted")
    run.advance(crossed(start, {"exit": "fixed", "output": "done"}, MountRole.EXIT))


def test_a_validator_may_change_the_output_but_not_the_exit(run: WrittenRun) -> None:
    enter(run)
    work(run, "fix/work", BAD)
    start = run.started("fix/__piw_exit_checked")
    run.advance(start)
    wrong: list[JsonObject] = [{"exit": "fixed", "output": 1}, {"exit": "checked"}, {"output": 1}]
    for output in wrong:
        refuse(run, crossed(start, output, MountRole.EXIT))
    final: JsonObject = {"exit": "checked", "output": "anything"}
    run.advance(crossed(start, final, MountRole.EXIT))
    run.advance(FinishRun(RunStatus.COMPLETED, Blob.of_json(final), None))
    assert run.status == ("completed", "done")


def test_mounts_are_crossed_only_by_their_own_transitions(run: WrittenRun) -> None:
    """Case: B41."""
    start = run.started("fix")
    run.advance(start)
    assert "this node crosses a mount" in refuse(run, run.finished(start, entry()))
    wrong_way = crossed(start, entry(), MountRole.EXIT)
    assert "crosses no mount that way" in refuse(run, wrong_way)
    stranger = dataclasses.replace(crossed(start, entry(), MountRole.ENTRY), node_id="look")
    assert "another node" in refuse(run, stranger)
    run.advance(crossed(start, entry(), MountRole.ENTRY))
    inner = run.started("fix/work")
    run.advance(inner)
    assert "crosses no mount" in refuse(run, crossed(inner, entry(), MountRole.ENTRY))


def test_a_bound_of_steps_counts_what_authors_declared(run: WrittenRun) -> None:
    """Two rounds have six authored steps and four transitions, and the run allows five.

    Case: B22.
    """
    for visit in (1, 2):
        enter(run, visit)
        work(run, "fix/work", GOOD, visit=visit)
        if visit == 2:
            break
        work(run, "fix/good", "done")
        leave(run, "done")
        work(run, "look", visit=2)
    assert "step limit" in refuse(run, run.started("fix/good", visit=2))
    run.advance(OUT_OF_STEPS)
    assert run.status == ("failed", "failed")


def test_a_bound_of_a_child_is_of_one_invocation(store: "WriteStore") -> None:
    """A later one has it anew.

    Case: B23.
    """
    graph: JsonObject = {**GRAPH, "maxSteps": 50}
    run = store.create("run-2", graph).begin()
    for visit in (1, 2):
        work(run, "look", visit=visit)
        enter(run, visit)
        work(run, "fix/work", GOOD, visit=visit)
        work(run, "fix/good", "done", visit=visit)
        leave(run, "done", visit=visit)
    mounts: list[JsonValue] = [{"path": "fix", "name": "repair", "maxSteps": 1}]
    tight: JsonObject = {**graph, "mounts": mounts}
    bounded = store.create("run-3", tight).begin()
    work(bounded, "look")
    enter(bounded)
    assert "goes on" in refuse(bounded, OUT_OF_STEPS)
    work(bounded, "fix/work", GOOD)
    with pytest.raises(ProposalRefused, match="step limit"):
        bounded.advance(bounded.started("fix/good"))
    bounded.advance(OUT_OF_STEPS)


def test_the_projection_shows_mounts_their_sources_and_what_left_them(run: WrittenRun) -> None:
    enter(run)
    work(run, "fix/work", GOOD)
    work(run, "fix/good", "done")
    leave(run, "done")
    state = run.store.do(run_state, "run-1")
    digest = run.store.value("SELECT 'sha256:' || lower(hex(definition_digest)) FROM runs")
    assert state["definitionDigest"] == digest
    assert state["workflowSources"] == [
        {
            "mountPath": ["fix"],
            "workflowName": "repair",
            "source": {
                "kind": "file",
                "path": "/projects/one/repair_flow.py",
                "hash": "cd" * 32,
            },
        }
    ]
    outputs, results = state["outputs"], state["results"]
    assert isinstance(outputs, dict)
    assert isinstance(results, dict)
    assert outputs["fix"] == outputs["fix/__piw_exit_fixed"] == {"exit": "fixed", "output": "done"}
    assert results["fix"] == results["fix/__piw_exit_fixed"]
