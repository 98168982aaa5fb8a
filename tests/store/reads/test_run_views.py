"""What a viewer is sent: the display status, and a bounded picture of one run."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from pi_workflows.protocol.canonical import canonical_bytes
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import (
    DisplayStatus,
    ParkReason,
    QueueStatus,
    RunStatus,
)
from store import run_queue, run_views, viewer_rows
from store.display import display, display_status, standing
from store.errors import NotClaimableError
from store.run_summaries import SummaryRow

if TYPE_CHECKING:
    from tests.store.reads.conftest import ScriptedStore

NOW: Final = 1_000
RUN: Final = SummaryRow(
    run_id="run-1",
    resource_id=ResourceId("resource-1"),
    workflow_name="tally",
    title=None,
    project_path=None,
    status=RunStatus.RUNNING,
    paused=False,
    status_detail=None,
    created_at=1,
    updated_at=1,
    finished_at=None,
    run_revision=1,
    presentation_revision=1,
    claimed_until=NOW + 1,
    queue_status=QueueStatus.RUNNING,
    available_at=1,
    deaths=0,
    error_code=None,
    request_kind=None,
    ambiguous=False,
    open_turn=False,
    steps=0,
)
PARKED: Final = replace(RUN, claimed_until=None, queue_status=QueueStatus.PARKED)
QUEUED: Final = replace(PARKED, status=RunStatus.QUEUED, queue_status=QueueStatus.QUEUED)
WAITING: Final = replace(PARKED, status=RunStatus.WAITING)
ENDED: Final = replace(
    PARKED, status=RunStatus.CANCELLED, queue_status=QueueStatus.CANCELLED, finished_at=9
)


def view_of(scripted: "ScriptedStore", run_id: str) -> dict[str, Any]:
    return cast("dict[str, Any]", scripted.read(run_views.run_view, run_id))


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        (replace(ENDED, ambiguous=True, open_turn=True), DisplayStatus.CANCELLED),
        (replace(RUN, ambiguous=True, paused=True), DisplayStatus.AMBIGUOUS),
        (replace(WAITING, paused=True, request_kind="agent"), DisplayStatus.PAUSED),
        (RUN, DisplayStatus.RUNNING),
        (replace(RUN, queue_status=None), DisplayStatus.RUNNING),
        (replace(RUN, queue_status=QueueStatus.STARTING), DisplayStatus.RUNNING),
        (replace(WAITING, open_turn=True, request_kind="agent"), DisplayStatus.RUNNING),
        (replace(PARKED, request_kind="checkpoint"), DisplayStatus.WAITING),
        (WAITING, DisplayStatus.WAITING),
        (QUEUED, DisplayStatus.QUEUED),
        (PARKED, DisplayStatus.QUEUED),
        (replace(RUN, claimed_until=NOW), DisplayStatus.QUEUED),
    ],
)
def test_first_matching_rule_gives_the_display_status(
    run: SummaryRow, shown: DisplayStatus
) -> None:
    """Case: A93, C102, C103, C104."""
    assert display_status(run, NOW) is shown


@pytest.mark.parametrize(
    ("run", "controls"),
    [
        (RUN, ["pause", "cancel"]),
        (QUEUED, ["pause", "cancel"]),
        (PARKED, ["pause", "cancel", "resume"]),
        (replace(WAITING, paused=True), ["resume", "cancel"]),
        (replace(WAITING, request_kind="checkpoint"), ["pause", "cancel", "answer"]),
        (replace(WAITING, request_kind="decision"), ["pause", "cancel", "human-answer"]),
        (replace(WAITING, request_kind="agent"), ["pause", "cancel", "update", "submit"]),
        (replace(WAITING, request_kind="assistant"), ["pause", "cancel"]),
        (replace(WAITING, ambiguous=True), ["cancel", "review"]),
        (ENDED, []),
        (replace(ENDED, ambiguous=True), ["review"]),
        (replace(ENDED, open_turn=True), ["cancel"]),
    ],
)
def test_controls_follow_status_and_pending_request(run: SummaryRow, controls: list[str]) -> None:
    """Case: C105."""
    assert display(run, NOW)["controls"] == controls


@pytest.mark.parametrize(
    "error_code", [ParkReason.SOURCE_CHANGED, ParkReason.NO_PROGRESS, ParkReason.EFFECT_AMBIGUOUS]
)
def test_run_that_needs_somebody_says_what_blocks_and_the_next_command(
    error_code: ParkReason,
) -> None:
    ambiguous = error_code is ParkReason.EFFECT_AMBIGUOUS
    shown = display(replace(PARKED, error_code=error_code, ambiguous=ambiguous), NOW)
    assert "pi-workflows cancel run-1" in str(shown["reason"])
    assert shown["code"] == error_code.value
    assert str(shown["next"]).startswith("pi-workflows ")
    assert ("pi-workflows resume run-1" in str(shown["reason"])) is not ambiguous


@pytest.mark.parametrize("paused", [False, True])
def test_a_changed_source_is_to_be_restored_before_the_resume_that_is_named(
    *, paused: bool
) -> None:
    changed = replace(PARKED, error_code=ParkReason.SOURCE_CHANGED, paused=paused)
    shown = display(changed, NOW)
    assert (shown["first"], shown["next"]) == ("restore the source", "pi-workflows resume run-1")
    assert "(pi-workflows run)" in str(shown["reason"])
    assert standing(changed, NOW) == ("paused" if paused else "parked")


def test_an_ambiguous_run_that_was_paused_says_both() -> None:
    unsure = replace(WAITING, ambiguous=True)
    both = display(replace(unsure, paused=True), NOW)
    assert (both["status"], both["paused"]) == ("ambiguous", True)
    assert str(both["next"]).startswith("pi-workflows effects")
    assert "resume it (pi-workflows resume run-1)" in str(both["reason"])
    assert "paused" not in display(unsure, NOW)


@pytest.mark.parametrize("error_code", [None, ParkReason.HANDOFF, ParkReason.CRASHED])
def test_run_that_goes_on_by_itself_has_no_reason_but_its_instant(error_code: str | None) -> None:
    shown = display(replace(PARKED, error_code=error_code, available_at=NOW + 500), NOW)
    assert not {"reason", "code", "next"} & shown.keys()
    assert shown["retryAt"] == "1970-01-01T00:00:01.500Z"
    assert "retryAt" not in display(replace(PARKED, error_code=error_code), NOW)


def test_three_deaths_without_progress_park_the_run_for_a_person(
    scripted: "ScriptedStore",
) -> None:
    """Case: A86."""
    run = scripted.create("run-1")
    for _ in range(run_queue.NO_PROGRESS_MAX):
        run.begin()
        run.lose_child()
        scripted.now += run_queue.RETRY_MAX_MS
    shown = view_of(scripted, "run-1")["display"]
    assert shown["status"] == "queued"
    assert "died 3 times" in shown["reason"]
    assert (shown["code"], shown["next"]) == ("runnerNoProgress", "pi-workflows resume run-1")
    assert scripted.read(run_queue.claimable, 10) == []
    with pytest.raises(NotClaimableError):
        run.begin()


def test_view_of_a_running_node_names_it(scripted: "ScriptedStore") -> None:
    run = scripted.create("run-1").begin()
    run.step("count", 1)
    run.start("check", detail="checking")
    view = view_of(scripted, "run-1")
    assert view["schema"] == "pi-workflows.run-view.v1"
    assert view["display"] == {"status": "running", "controls": ["pause", "cancel"]}
    assert view["current"] == {
        "nodeId": "check",
        "attemptId": "attempt-run-1-check-1",
        "visit": 1,
        "startedAt": "2023-11-14T22:13:20.060Z",
        "statusDetail": "checking",
    }
    assert view["manifest"]["projectPath"] == "/projects/one"
    assert view["unresolvedEffects"][0]["status"] == "applying"
    assert "finalOutput" not in view


def test_view_of_a_long_run_holds_its_newest_steps(scripted: "ScriptedStore") -> None:
    run = scripted.create("run-1").begin()
    for _ in range(35):
        run.step("count", 1)
        run.step("check", error="e" * 5_000)
    steps = view_of(scripted, "run-1")["steps"]
    assert (steps["start"], steps["total"]) == (6, 70)
    assert [item["stepIndex"] for item in steps["items"]] == list(range(6, 70))
    assert {len(item["error"]) for item in steps["items"] if "error" in item} == {1_024}


def test_view_shows_a_small_output_and_only_mentions_a_large_one(
    scripted: "ScriptedStore",
) -> None:
    # The quotes of JSON are two bytes.
    largest = "x" * (run_views.OUTPUT_BYTES_MAX - 2)
    for run_id, output in (("small", largest), ("large", largest + "x")):
        run = scripted.create(run_id).begin()
        run.step("count", 1)
        run.step("check", 2)
        run.step("report", output)
        run.complete(output)
    assert view_of(scripted, "small")["finalOutput"] == largest
    large = view_of(scripted, "large")
    assert "finalOutput" not in large
    assert large["finalOutputStored"] is True


def test_long_error_is_cut_between_characters(scripted: "ScriptedStore") -> None:
    run = scripted.create("run-1")
    reason = "x" + "é" * run_views.ERROR_BYTES_MAX
    run.cancel(reason)
    error = view_of(scripted, "run-1")["error"]
    assert reason.startswith(error)
    assert len(error.encode()) == run_views.ERROR_BYTES_MAX - 1


def test_worst_view_fits_into_a_frame(scripted: "ScriptedStore") -> None:
    run = scripted.create("run-1").begin()
    for _ in range(32):
        run.step("count", 1)
        run.step("check", error="\x01" * 5_000)
    assert len(canonical_bytes(view_of(scripted, "run-1"))) < 524_288


def test_cancelled_run_with_an_unknown_effect_shows_both(scripted: "ScriptedStore") -> None:
    """Case: A93."""
    run = scripted.create("run-1").begin()
    run.step("count", 1)
    run.start("check")
    run.lose_child()
    assert view_of(scripted, "run-1")["display"]["status"] == "ambiguous"
    run.cancel("enough")
    view = view_of(scripted, "run-1")
    assert view["display"] == {"status": "cancelled", "controls": ["review"]}
    assert [effect["status"] for effect in view["unresolvedEffects"]] == ["ambiguous"]


def test_presentation_revision_grows_by_one_and_keeps_nothing_older(
    scripted: "ScriptedStore",
) -> None:
    scripted.create("run-1")
    assert view_of(scripted, "run-1")["revision"] == 0
    for revision in (1, 2, 3):
        scripted.do(viewer_rows.advance, "run-1")
        view = view_of(scripted, "run-1")
        assert (view["revision"], view["runRevision"]) == (revision, 1)
        rows = scripted.reader.connection.execute(
            "SELECT retained_from_revision FROM viewer_runs"
        ).fetchall()
        assert rows == [(revision,)]
