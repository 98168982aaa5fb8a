"""Updates and progress: what is accepted, and the sentence that each refusal says."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_workflows.protocol.progress import (
    PROGRESS_SCHEMA,
    Progress,
    ProgressInvalid,
    ProgressStatus,
    parse_progress,
    progress_data,
    progress_of,
)
from pi_workflows.protocol.updates import DATA_BYTES_MAX, update_problem

RUNNING: Final[dict[str, object]] = {"schema": PROGRESS_SCHEMA, "status": "running"}


def test_all_fields_of_a_progress_are_read_as_they_were_written() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    data = progress_data(
        status="waiting",
        label="files",
        phase="copy",
        completed=3,
        total=10,
        unit="file",
        source_updated_at=moment,
        source_estimated_finish_at=moment + timedelta(seconds=1),
    )
    at = round(moment.timestamp() * 1000)
    assert parse_progress(data) == Progress(
        ProgressStatus.WAITING, "files", "copy", 3, 10, "file", at, at + 1000
    )
    assert data["sourceUpdatedAt"] == "2026-01-02T03:04:05+02:00"


def test_what_is_not_said_is_absent() -> None:
    assert progress_data() == RUNNING
    assert parse_progress(RUNNING) == Progress()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"completed": 3, "total": 2, "unit": "file"}, "completed is not more than total"),
        ({"completed": 3}, "completed and total need a unit"),
        ({"total": 3}, "completed and total need a unit"),
        ({"percent": 3}, "it has no field percent"),
        ({"completed": -1, "unit": "file"}, "completed is 0 or more"),
        ({"total": 0, "unit": "file"}, "total is more than 0"),
        ({"completed": True, "unit": "file"}, "completed is a number"),
        ({"completed": float("inf"), "unit": "file"}, "completed is a number"),
        ({"completed": None, "unit": "file"}, "completed is a number"),
        ({"status": "busy"}, "status is one of pending, running"),
        ({"status": ["running"]}, "status is one of pending, running"),
        ({"schema": "pi-workflows.progress.v2"}, "its schema is"),
        ({"unit": ""}, "unit is a text of 1 to 32"),
        ({"unit": "x" * 33}, "unit is a text of 1 to 32"),
        ({"label": "😀" * 101}, "label is a text of 1 to 200"),
        ({"phase": "x" * 129}, "phase is a text of 1 to 128"),
        ({"sourceUpdatedAt": "2026-01-02T03:04:05"}, "RFC 3339 instant with an offset"),
        ({"sourceUpdatedAt": "2026-13-02T03:04:05Z"}, "RFC 3339 instant with an offset"),
        ({"sourceEstimatedFinishAt": 5}, "RFC 3339 instant with an offset"),
    ],
    ids=str,
)
def test_progress_that_breaks_a_rule_is_refused_by_name(
    fields: dict[str, object], says: str
) -> None:
    """Case: B65."""
    data = RUNNING | fields
    with pytest.raises(ProgressInvalid, match=says):
        parse_progress(data)
    assert update_problem("progress", "overall", data) is not None
    assert progress_of({"type": "progress", "data": data}) is None  # type: ignore[dict-item]


def test_bounds_of_a_progress_are_allowed() -> None:
    parse_progress(
        RUNNING
        | {"label": "😀" * 100, "phase": "x" * 128, "unit": "x" * 32, "completed": 0, "total": 0.5}
    )


def test_naive_instants_are_refused_before_they_are_sent() -> None:
    with pytest.raises(ProgressInvalid, match="with a time zone"):
        progress_data(source_updated_at=datetime(2026, 1, 1))  # noqa: DTZ001 - the point


@given(
    completed=st.floats(0, 1e12) | st.integers(0, 2**53 - 1) | st.none(),
    rest=st.floats(0, 1e12),
    label=st.text(min_size=1, max_size=100).filter(str.strip) | st.none(),
    moment=st.datetimes(timezones=st.just(UTC)) | st.none(),
)
def test_every_progress_that_can_be_made_can_be_read(
    completed: float | None, rest: float, label: str | None, moment: datetime | None
) -> None:
    data = progress_data(
        completed=completed,
        total=None if completed is None else completed + rest + 1,
        unit="file",
        label=label,
        source_updated_at=moment,
    )
    read = parse_progress(data)
    assert (read.completed, read.label) == (completed, label)


@pytest.mark.parametrize(
    ("update_type", "key", "data", "says"),
    [
        ("", "k", {}, "its type"),
        ("Progress", "k", {}, "its type"),
        ("x" * 65, "k", {}, "its type"),
        ("1x", "k", {}, "its type"),
        ("x", "", {}, "its key"),
        ("x", "/k", {}, "its key"),
        ("x", "k" * 129, {}, "its key"),
        ("x", "k k", {}, "its key"),
        ("x", "k\n", {}, "its key"),
        (None, "k", {}, "its type"),
        ("x", "k", [], "its data is an object"),
        ("x", "k", None, "its data is an object"),
        ("x", "k", {"n": float("nan")}, "no JSON form"),
        ("x", "k", {1: 2}, "no JSON form"),
        ("x", "k", {"n": 2**53}, "no JSON form"),
        ("x", "k", {"n": "x" * DATA_BYTES_MAX}, "bytes of JSON, and at most 65536"),
    ],
    ids=str,
)
def test_malformed_update_is_refused_by_name(
    update_type: object, key: object, data: object, says: str
) -> None:
    assert says in str(update_problem(update_type, key, data))


def test_update_at_its_bounds_is_allowed() -> None:
    data = {"n": "x" * (DATA_BYTES_MAX - len('{"n":""}'))}
    assert update_problem("x" + "-" * 63, "9" + "/" * 127, data) is None
    assert "bytes" in str(update_problem("x", "k", {"n": data["n"] + "x"}))
