"""How far a run has come: bars on a terminal, lines elsewhere, documents for scripts."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from rich.console import Console

from pi_workflows.cli.live import page
from pi_workflows.cli.updates import Reports, UpdateNews, eta_text, update_lines
from pi_workflows.client.scripted import Answer
from pi_workflows.protocol.progress import progress_data
from pi_workflows.protocol.timestamps import rfc3339

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject, JsonValue
    from tests.cli.conftest import Invoke, Serve

T0: Final = 1_767_323_045_000
SECOND: Final = 1_000


def update(seq: int, seconds: float, **fields: Any) -> JsonObject:  # noqa: ANN401
    """An update of `overall` progress, unless a type is named."""
    shown: JsonObject = {
        "updateId": f"upd_{seq}",
        "seq": seq,
        "at": rfc3339(T0 + round(seconds * SECOND)),
        "nodeId": "copy",
        "attemptId": "attempt-1",
        "type": fields.pop("type", "progress"),
        "key": fields.pop("key", "overall"),
    }
    return {**shown, "data": fields.pop("data", None) or progress_data(**fields)}


def view(*updates: JsonObject, status: str = "running") -> JsonObject:
    items: list[JsonValue] = [*updates]
    return {
        "schema": "pi-workflows.run-view.v1",
        "revision": len(items),
        "display": {"status": status, "controls": []},
        "manifest": {"runId": "r1", "workflowName": "copy", "createdAt": rfc3339(T0)},
        "steps": {"start": 0, "total": 0, "items": []},
        "updates": {"total": len(items), "items": items},
    }


def files(seq: int, seconds: float, completed: float, **more: Any) -> JsonObject:  # noqa: ANN401
    return update(seq, seconds, completed=completed, total=40, unit="file", **more)


def drawn(shown: JsonObject, reports: Reports | None = None) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(page(shown, 20, (reports or Reports()).take(shown)))
    return console.export_text()


def test_reports_collect_what_views_bring_and_give_an_estimate() -> None:
    reports = Reports()
    for seq in range(1, 8):
        reports.take(view(files(seq, seq, seq * 2)))
        assert len(reports.take(view(files(seq, seq, seq * 2)))[0].samples) == seq
    (report,) = reports.take(view(files(7, 7, 14)))
    assert eta_text(report.samples, T0 + 7 * SECOND) == "about 13.0 s left (high)"
    assert eta_text(report.samples[:1], T0) == ""
    (report,) = reports.take(view(files(8, 8, 40)))
    assert eta_text(report.samples, T0 + 8 * SECOND) == "", "all is done"


def test_word_of_a_source_is_called_one() -> None:
    said = files(1, 0, 1, source_estimated_finish_at=None)
    said["data"] = {
        **said["data"],  # type: ignore[dict-item]
        "sourceEstimatedFinishAt": rfc3339(T0 + 90 * SECOND),
    }
    (report,) = Reports().take(view(said))
    assert eta_text(report.samples, T0) == "about 1 m 30 s left (says its source)"


def test_terminal_shows_a_bar_per_progress_the_whole_run_first_and_other_updates_below() -> None:
    text = drawn(
        view(
            update(1, 0, key="b", label="uploading\x1b[2J", completed=5, total=10, unit="part"),
            update(2, 0, type="log.line", key="newest", data={"text": "hello"}),
            files(3, 0, 12, phase="copy"),
            update(4, 0, key="c", status="waiting", label="review"),
        )
    )
    lines = [line.strip() for line in text.splitlines()]
    bars = lines[1:4]
    assert [line.split()[0] for line in bars] == ["overall", "uploading[2J", "review"]
    assert ["━" in line for line in bars] == [True, True, False], "a review has no count"
    assert "12/40 file, 30 %" in bars[0]
    assert "copy" in bars[0]
    assert "5/10 part, 50 %" in bars[1]
    assert "waiting" in bars[2]
    assert 'log.line newest  {"text": "hello"}' in text
    assert "\x1b" not in text


def test_bars_move_with_the_count_and_go_with_the_run() -> None:
    cells = [drawn(view(files(1, 0, completed))).count("━") for completed in (4, 20, 40)]
    assert cells == [2, 10, 20]
    assert "━" not in drawn(view(files(1, 0, 40), status="completed"))


def test_live_estimate_stands_behind_the_bar() -> None:
    reports = Reports()
    for seq in range(1, 7):
        reports.take(view(files(seq, seq, seq)))
    assert "left (high)" in drawn(view(files(7, 7, 7)), reports)


def test_progress_takes_one_row_on_a_narrow_terminal() -> None:
    reports = Reports()
    shown = [
        view(files(seq, seq, seq, label="a rather long label of a thing", phase="first"))
        for seq in range(1, 8)
    ]
    for earlier in shown:
        reports.take(earlier)
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(page(shown[-1], 20, reports.take(shown[-1])))
    assert len(console.export_text().splitlines()) == 2, "the title and the bar"


def test_of_many_progresses_the_newest_have_bars_and_no_bar_moves_to_another_line() -> None:
    reports = Reports()
    first = view(*(files(n, n, 20, key=f"k{n}") for n in range(1, 33)), files(99, 0, 20))
    rows = [line.split()[0] for line in drawn(first, reports).splitlines() if "━" in line]
    assert rows == ["overall", *(f"k{n}" for n in range(25, 32))]
    again = view(*(files(n + 100, 100 - n, 20, key=f"k{n}") for n in (31, 30)))
    rows = [line.split()[0] for line in drawn(again, reports).splitlines() if "━" in line]
    assert rows == ["k30", "k31"]


def test_lines_are_for_milestones_and_else_every_ten_seconds() -> None:
    news = UpdateNews()
    assert news.lines(view(files(1, 0, 0, label="files"))) == ["files  0/40 file, 0 %"]
    assert news.lines(view(files(2, 0.1, 1, label="files"))) == []
    assert news.lines(view(files(2, 0.1, 1, label="files"))) == []
    assert len(news.lines(view(files(3, 0.2, 4, label="files")))) == 1, "a tenth"
    assert len(news.lines(view(files(4, 0.3, 4, label="files", phase="two")))) == 1
    assert len(news.lines(view(files(5, 0.4, 4, label="f", phase="two", status="blocked")))) == 1
    assert news.lines(view(files(6, 0.5, 5, label="g", phase="two", status="blocked"))) == []
    assert len(news.lines(view(files(7, 10.4, 5, phase="two", status="blocked")))) == 1
    (done,) = news.lines(view(files(8, 10.5, 40, status="completed")))
    assert done == "overall  40/40 file, 100 %  completed"


def test_other_updates_have_a_line_at_most_every_ten_seconds() -> None:
    news = UpdateNews()

    def said(seq: int, seconds: float) -> list[str]:
        return news.lines(view(update(seq, seconds, type="log", key="k", data={"n": seq})))

    assert said(1, 0) == ['log k  {"n": 1}']
    assert said(2, 9) == []
    assert said(3, 10) == ['log k  {"n": 3}']
    large = update(4, 30, type="log", key="k", data={"n": 4})
    del large["data"]
    assert news.lines(view({**large, "dataStored": True})) == ["log k  …"]


@pytest.mark.parametrize("command", [("run", "copy"), ("watch", "r1")])
def test_without_a_terminal_progress_is_printed_as_lines(
    serve: Serve, invoke: Invoke, command: tuple[str, str]
) -> None:
    views = [
        view(files(1, 0, 0, label="files")),
        view(files(2, 1, 20, label="files")),
        view(files(3, 2, 40, label="files"), status="completed"),
    ]
    answers = {
        "run.start": Answer(receipt={"runId": "r1", "status": "queued"}),
        "view.run.get": Answer(receipt={"view": {}}),
        "view.run.watch": Answer(
            events=[("run_snapshot", shown, index) for index, shown in enumerate(views)]
        ),
        "run.status": Answer(receipt={"state": {"finalOutput": "done"}}),
    }
    with serve(answers):
        result = invoke(*command)
        machine = invoke("watch", "r1", "--json")
    lines = [line for line in result.stderr.splitlines() if line.startswith("·")]
    assert lines[0] == "· files  0/40 file, 0 %"
    assert lines[-1].startswith("· files  40/40 file, 100 %")
    assert result.stdout == "done\n"
    shown = [json.loads(line) for line in machine.stdout.splitlines()]
    assert [it["updates"]["items"][0]["data"]["completed"] for it in shown] == [0, 20, 40]


def test_show_lists_what_was_said(serve: Serve, invoke: Invoke) -> None:
    told = [files(1, 0, 3, label="files"), update(2, 0, type="log", key="k", data={"n": 1})]
    state: JsonObject = {"runId": "r1", "status": "running", "updates": [*told]}
    assert update_lines(state) == ["files  3/40 file, 7 %", 'log k  {"n": 1}']
    with serve({"run.status": Answer(receipt={"state": state})}):
        shown = invoke("show", "r1").stdout
    assert "· files  3/40 file, 7 %\n· log k" in shown


def test_what_is_no_progress_or_malformed_is_passed_over() -> None:
    broken = update(1, 0, type="progress", data={"percent": 3})
    assert Reports().take(view(broken)) == []
    assert Reports().take({"updates": 5}) == []
    assert update_lines({"updates": ["x"]}) == []
