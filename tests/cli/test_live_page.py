"""The live page of a run: what one view looks like on a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from pi_workflows.cli.live import page

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject, JsonValue

AT = "2026-01-02T03:04:05.006Z"


def step(node: str, **more: JsonValue) -> JsonObject:
    return {
        "stepIndex": 0,
        "nodeId": node,
        "outcome": "ok",
        "startedAt": AT,
        "finishedAt": AT,
        **more,
    }


def drawn(status: str, *steps: JsonValue, lost: bool = False, **more: JsonValue) -> str:
    view: JsonObject = {
        "display": {"status": status, "controls": []},
        "manifest": {"runId": "r1", "workflowName": "echo", "createdAt": AT},
        "steps": {"start": 0, "total": len(steps), "items": list(steps)},
        **more,
    }
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(page(view, 10, lost=lost))
    return console.export_text()


def test_a_view_of_a_server_that_is_gone_is_called_the_last_one() -> None:
    text = drawn("running", lost=True)
    assert "last seen running" in text
    assert "the server does not answer" in text
    assert "last seen" not in drawn("running")


def test_the_live_page_names_later_visits_and_a_parked_run() -> None:
    display: JsonObject = {"status": "queued", "reason": "it changed"}
    text = drawn("queued", step("append", visit=3), display=display)
    assert "append #3" in text
    assert "parked" in text


def test_the_live_page_says_what_is_tried_again_and_when() -> None:
    retrying: JsonObject = {
        "nodeId": "put",
        "visit": 1,
        "failedTries": 2,
        "outcome": "failed",
        "nextTryAt": AT,
        "error": "ConnectionError: refused",
    }
    text = drawn("queued", retrying=retrying)
    assert "put  2 failed, next try 2026-01-0" in text
    assert "ConnectionError: refused" in text
    assert "try 3" in drawn("completed", step("put", failedTries=2))


def test_a_wait_that_the_node_asked_for_is_no_failure_on_the_live_page() -> None:
    retrying: JsonObject = {
        "nodeId": "pause/wait",
        "visit": 1,
        "failedTries": 1,
        "outcome": "failed",
        "nextTryAt": AT,
        "asked": True,
        "error": "10 s in all",
    }
    text = drawn("queued", retrying=retrying)
    assert "pause/wait  waits until 2026-01-0" in text
    assert "failed" not in text
