"""The list of runs: its order, its pages, its filters, and what it never reads."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from pi_workflows.protocol.states import ActorType, DisplayStatus
from store import run_lists, run_summaries
from store.authority import Permit
from store.resources import Actor
from store.run_lists import CursorInvalidError
from store.run_pausing import pause_run

if TYPE_CHECKING:
    from tests.store.reads.conftest import ScriptedStore


def page_of(
    scripted: "ScriptedStore",
    *,
    limit: int = 10,
    cursor: str | None = None,
    status: DisplayStatus | None = None,
    project_path: str | None = None,
) -> dict[str, Any]:
    page = scripted.read(
        run_lists.page, limit=limit, cursor=cursor, status=status, project_path=project_path
    )
    return cast("dict[str, Any]", page)


def ids_of(page: dict[str, Any]) -> list[str]:
    return [item["runId"] for item in page["items"]]


def test_runs_are_listed_by_creation_then_id_both_descending(scripted: "ScriptedStore") -> None:
    """Case: D19."""
    for run_id in ("run-a", "run-c", "run-b"):
        scripted.create(run_id)
    assert ids_of(page_of(scripted)) == ["run-b", "run-c", "run-a"]
    scripted.alter("UPDATE runs SET created_at = 5")
    assert ids_of(page_of(scripted)) == ["run-c", "run-b", "run-a"]


def test_pages_follow_each_other_without_gap_or_double(scripted: "ScriptedStore") -> None:
    names = [f"run-{number}" for number in range(5)]
    for name in names:
        scripted.create(name)
    scripted.alter("UPDATE runs SET created_at = 5 WHERE run_id IN ('run-1', 'run-2', 'run-3')")
    seen, cursor = [], None
    for _ in range(3):
        page = page_of(scripted, limit=2, cursor=cursor)
        seen.extend(ids_of(page))
        cursor = page["nextCursor"]
        scripted.create(f"new-{len(seen)}")  # Newer than every cursor: it shifts no page.
    assert cursor is None
    assert seen == ["run-4", "run-0", "run-3", "run-2", "run-1"]


def test_list_is_filtered_by_project(scripted: "ScriptedStore") -> None:
    """Case: D19."""
    scripted.create("run-1", project="/projects/one")
    scripted.create("run-2", project="/projects/two")
    scripted.create("run-3", project="/projects/one")
    assert ids_of(page_of(scripted, project_path="/projects/one")) == ["run-3", "run-1"]
    assert ids_of(page_of(scripted, project_path="/projects/none")) == []


def test_list_is_filtered_by_what_each_run_shows(scripted: "ScriptedStore") -> None:
    scripted.create("done").work()
    run = scripted.create("unknown").begin()
    run.step("count", 1)
    run.start("check")
    run.lose_child()
    scripted.create("busy").begin()
    scripted.create("new", project="/projects/two")
    scripted.create("newer")
    shown = {status: ids_of(page_of(scripted, status=status)) for status in DisplayStatus}
    assert {status: ids for status, ids in shown.items() if ids} == {
        DisplayStatus.COMPLETED: ["done"],
        DisplayStatus.AMBIGUOUS: ["unknown"],
        DisplayStatus.RUNNING: ["busy"],
        DisplayStatus.QUEUED: ["newer", "new"],
    }
    both = page_of(scripted, status=DisplayStatus.QUEUED, project_path="/projects/two")
    assert ids_of(both) == ["new"]


def test_list_of_paused_runs_has_those_whose_effect_is_unknown_too(
    scripted: "ScriptedStore",
) -> None:
    """They are shown as ambiguous, and say besides that they are paused."""
    run = scripted.create("unknown").begin()
    run.step("count", 1)
    run.start("check")
    run.lose_child()
    scripted.create("busy").begin()
    assert ids_of(page_of(scripted, status=DisplayStatus.PAUSED)) == []
    scripted.do(pause_run, Permit(Actor(ActorType.CONTROL)), "unknown")
    (item,) = page_of(scripted, status=DisplayStatus.PAUSED)["items"]
    assert (item["runId"], item["display"]["status"]) == ("unknown", "ambiguous")
    assert item["display"]["paused"] is True


def test_filtered_page_is_full_although_most_candidates_do_not_match(
    scripted: "ScriptedStore",
) -> None:
    for number in range(9):
        run = scripted.create(f"run-{number}")
        if number % 3:
            run.begin()
    first = page_of(scripted, status=DisplayStatus.QUEUED, limit=2)
    second = page_of(scripted, status=DisplayStatus.QUEUED, limit=2, cursor=first["nextCursor"])
    assert (ids_of(first), ids_of(second)) == (["run-6", "run-3"], ["run-0"])
    assert second["nextCursor"] is None


def test_item_says_how_the_run_stands(scripted: "ScriptedStore") -> None:
    scripted.create("run-1").work()
    [item] = page_of(scripted)["items"]
    assert item == {
        "runId": "run-1",
        "workflowName": "tally",
        "createdAt": "2023-11-14T22:13:20.000Z",
        "updatedAt": "2023-11-14T22:13:20.170Z",
        "finishedAt": "2023-11-14T22:13:20.170Z",
        "status": "completed",
        "display": {"status": "completed", "controls": []},
        "steps": 5,
    }


def test_page_ends_before_it_has_too_many_bytes_but_holds_at_least_one_run(
    scripted: "ScriptedStore",
) -> None:
    for number in range(4):
        scripted.create(f"run-{number}")
    scripted.alter("UPDATE runs SET title = printf('%.*c', 250000, 't')")
    first = page_of(scripted)
    second = page_of(scripted, cursor=first["nextCursor"])
    assert (ids_of(first), ids_of(second)) == (["run-3", "run-2"], ["run-1", "run-0"])
    assert second["nextCursor"] is None
    scripted.alter("UPDATE runs SET title = printf('%.*c', 600000, 't')")
    assert ids_of(page_of(scripted)) == ["run-3"]


@pytest.mark.parametrize("cursor", ["", "%", "bm8", "WzFd", "WyJhIiwxXQ", "é"])
def test_cursor_of_another_making_is_refused(scripted: "ScriptedStore", cursor: str) -> None:
    with pytest.raises(CursorInvalidError):
        page_of(scripted, cursor=cursor)


@pytest.mark.parametrize(
    "statement",
    [run_summaries.SELECT_SUMMARIES, *(getattr(run_lists, n) for n in run_lists.ROW_STATEMENTS)],
)
def test_list_reads_no_payload_and_scans_no_table(
    scripted: "ScriptedStore", statement: str
) -> None:
    bindings = {
        "run_ids": "[]",
        "created_at": 1,
        "run_id": "r",
        "limit": 1,
        "status": "failed",
        "project_path": "/p",
    }
    plan = [
        row[3]
        for row in scripted.writer.connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)
    ]
    assert plan
    assert not any("blobs" in line for line in plan), plan
    scans = [line for line in plan if line.startswith("SCAN") and "VIRTUAL TABLE" not in line]
    assert scans == [], plan
