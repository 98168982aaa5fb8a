"""`run` and `watch`: starting, staying, detaching, and what is printed where."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from pi_workflows.client.scripted import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pi_workflows.protocol.canonical import JsonObject
    from pi_workflows.protocol.paths import StatePaths
    from tests.cli.conftest import Invoke, Serve, Start

STARTED = Answer(receipt={"runId": "r1", "status": "queued", "workflowName": "echo"})
AT = "2026-01-02T03:04:05.006Z"


def step(index: int, node: str, outcome: str = "ok") -> JsonObject:
    made: JsonObject = {
        "stepIndex": index,
        "nodeId": node,
        "outcome": outcome,
        "startedAt": AT,
        "finishedAt": AT,
    }
    return made if outcome == "ok" else {**made, "error": "Boom: no\x1b[2J"}


def view(revision: int, status: str, *steps: JsonObject, **more: object) -> JsonObject:
    made: Mapping[str, object] = {
        "schema": "pi-workflows.run-view.v1",
        "revision": revision,
        "display": {"status": status, "controls": []},
        "manifest": {"runId": "r1", "workflowName": "echo\x1b", "createdAt": AT},
        "steps": {"start": 0, "total": len(steps), "items": list(steps)},
        **more,
    }
    return dict(made)  # type: ignore[arg-type]


def following(*views: JsonObject, state: JsonObject | None = None) -> dict[str, Answer]:
    return {
        "run.start": STARTED,
        "view.run.get": Answer(receipt={"view": {}}),
        "view.run.watch": Answer(
            events=[("run_snapshot", it, index) for index, it in enumerate(views)]
        ),
        "run.status": Answer(receipt={"state": state or {}}),
    }


def test_detach_json_prints_run_id_and_status(
    paths: StatePaths, serve: Serve, invoke: Invoke
) -> None:
    with serve({"run.start": STARTED}) as server:
        result = invoke("run", "echo", "--detach", "--json", "--input", '{"a": 1}')
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"runId": "r1", "status": "queued"}
    assert server.requests[0]["payload"] == {
        "projectPath": str(paths.home.resolve()),
        "workflow": "echo",
        "input": {"a": 1},
        "originSessionId": None,
        "executionMode": "headless",
    }


def test_detach_prints_the_run_id_and_how_to_come_back(serve: Serve, invoke: Invoke) -> None:
    with serve({"run.start": STARTED}):
        result = invoke("run", "echo", "--detach")
    assert result.stdout == "r1\n"
    assert "pi-workflows watch r1" in result.stderr


def test_input_comes_from_a_file_or_from_standard_input(
    paths: StatePaths, serve: Serve, invoke: Invoke
) -> None:
    (paths.home / "in.json").write_text("[1]")
    with serve({"run.start": STARTED}) as server:
        invoke("run", "echo", "--detach", "--input", "@in.json")
        invoke("run", "echo", "--detach", "--input", "-", stdin='"text"')
        invoke("run", "echo", "--detach")
    payloads = [request["payload"] for request in server.requests]
    assert [payload["input"] for payload in payloads if isinstance(payload, dict)] == [
        [1],
        "text",
        None,
    ]


def test_a_file_is_sent_as_an_absolute_path_and_the_project_too(
    paths: StatePaths, serve: Serve, invoke: Invoke
) -> None:
    (paths.home / "flows").mkdir()
    (paths.home / "flows" / "a.workflow.py").write_text("")
    with serve({"run.start": STARTED}) as server:
        invoke("run", "flows/a.workflow.py", "--project", "flows", "--detach")
    payload = server.requests[0]["payload"]
    assert isinstance(payload, dict)
    assert payload["workflow"] == str(paths.home / "flows" / "a.workflow.py")
    assert payload["projectPath"] == str((paths.home / "flows").resolve())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["missing.workflow.py"], "SOURCE_UNKNOWN"),
        (["echo", "--input", "{"], "NOT_JSON"),
        (["echo", "--input", '{"a":1,"a":2}'], "NOT_JSON"),
        (["echo", "--input", "NaN"], "NOT_JSON"),
        (["echo", "--input", "@nowhere"], "USAGE"),
        (["echo", "--project", "nowhere"], "USAGE"),
        (["echo", "--wrong"], "USAGE"),
        ([], "USAGE"),
    ],
    ids=str,
)
def test_bad_arguments_are_usage_errors_and_start_no_server(
    paths: StatePaths, invoke: Invoke, arguments: list[str], code: str
) -> None:
    people = invoke("run", *arguments)
    machine = invoke("run", *arguments, "--json")
    assert (people.exit_code, machine.exit_code) == (2, 2)
    assert people.stdout == ""
    assert people.stderr
    assert json.loads(machine.stdout)["error"]["code"] == code
    assert not (paths.logs / "server.output").exists()


@pytest.mark.parametrize("text", ['"' + "x" * 2**20 + '"', "9007199254740993"], ids=["1M", "int"])
def test_an_input_that_no_frame_can_carry_is_a_usage_error(
    paths: StatePaths, serve: Serve, invoke: Invoke, text: str
) -> None:
    (paths.home / "in.json").write_text(text)
    with serve({}) as server:
        result = invoke("run", "echo", "--input", "@in.json", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "PAYLOAD_INVALID"
    assert server.requests == []


def test_a_refused_workflow_shows_its_detail_only_with_debug(serve: Serve, invoke: Invoke) -> None:
    receipt: JsonObject = {"code": "SOURCE_FAILED", "detail": "Traceback: deep"}
    refused = Answer(outcome="rejected", error="a.py:3: SyntaxError", receipt=receipt)
    with serve({"run.start": refused}):
        plain = invoke("run", "echo")
        debug = invoke("run", "echo", "--debug")
    assert (plain.exit_code, debug.exit_code) == (2, 2)
    assert plain.stderr == "pi-workflows: a.py:3: SyntaxError\n"
    assert "Traceback: deep" in debug.stderr


def test_an_attached_run_prints_steps_to_stderr_and_the_output_to_stdout(
    serve: Serve, invoke: Invoke
) -> None:
    views = (
        view(0, "running"),
        view(1, "running", step(0, "look")),
        view(2, "completed", step(0, "look"), step(1, "say")),
    )
    with serve(following(*views, state={"finalOutput": {"n": 1}})):
        result = invoke("run", "echo")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"n": 1}
    assert result.stderr == "run r1\n✓ look  0 ms\n✓ say  0 ms\n"


def test_steps_that_left_the_window_are_counted(serve: Serve, invoke: Invoke) -> None:
    with serve(following(view(0, "completed", step(70, "late")), state={"finalOutput": "t"})):
        result = invoke("run", "echo")
    assert result.stdout == "t\n"
    assert "… 70 earlier steps\n" in result.stderr


def test_an_attached_json_run_prints_one_document(serve: Serve, invoke: Invoke) -> None:
    with serve(following(view(0, "completed"), state={"finalOutput": None})):
        done = invoke("run", "echo", "--json")
    assert json.loads(done.stdout) == {"runId": "r1", "status": "completed", "finalOutput": None}
    assert done.stderr == ""
    with serve(following(view(0, "failed"), state={"error": "Boom"})):
        failed = invoke("run", "echo", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout) == {"runId": "r1", "status": "failed", "error": "Boom"}


@pytest.mark.parametrize("status", ["failed", "timed_out", "cancelled"])
def test_a_run_that_did_not_complete_is_exit_1_with_its_error(
    serve: Serve, invoke: Invoke, status: str
) -> None:
    ended = view(0, status, step(0, "look", "failed"))
    with serve(following(ended, state={"error": "look failed: Boom"})):
        result = invoke("run", "echo")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.endswith(f"r1 {status}: look failed: Boom\n")
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        ("Boom: no", "✗ look  0 ms  Boom: no\nr1 failed; look with: pi-workflows show r1\n"),
        ("Boom: no\nyes", "✗ look  0 ms  Boom: no\nr1 failed: Boom: no\nyes\n"),
    ],
    ids=["one line", "more"],
)
def test_an_error_that_its_step_line_shows_in_full_is_not_said_again(
    serve: Serve, invoke: Invoke, error: str, ending: str
) -> None:
    ended = view(0, "failed", {**step(0, "look", "failed"), "error": error}, error=error)
    with serve(following(ended, state={"error": error})):
        result = invoke("run", "echo")
    assert result.stderr == f"run r1\n{ending}"


def test_the_live_page_leaves_the_runs_error_to_the_end(serve: Serve, start: Start) -> None:
    terminal, its_stderr = os.openpty()
    error = "Boom: line one\nline two"
    ended = view(0, "failed", {**step(0, "look", "failed"), "error": error}, error=error)
    with serve(following(ended, state={"error": error})):
        process = start("run", "echo", stderr=its_stderr)
        os.close(its_stderr)
        process.communicate(timeout=120)
        drawn = _drain(terminal)
    os.close(terminal)
    assert drawn.count("line two") == 1
    assert "r1 failed: Boom: line one" in drawn


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--input", "Ada"], """a text needs its own quotes: --input '"Ada"'"""),
        (["--input", "@nofile.json"], "cannot read the input file nofile.json: No such file"),
        (["--input", "@."], "cannot read the input file .: Is a directory"),
        (["--input", '{"a": [1, {"b": 9007199254740993}]}'], "the integer at $.a[1].b is beyond"),
        (["--input", "-9007199254740993"], "--input: the integer at $ is beyond 2^53-1"),
    ],
    ids=["bare text", "no file", "folder", "deep integer", "integer"],
)
def test_a_bad_input_says_what_and_where_and_what_to_do(
    invoke: Invoke, arguments: list[str], says: str
) -> None:
    result = invoke("run", "echo", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize("text", ["{a: 1}", "[1", '"open', "12x"])
def test_an_input_that_was_meant_as_json_gets_no_hint_about_texts(
    invoke: Invoke, text: str
) -> None:
    assert "its own quotes" not in invoke("run", "echo", "--input", text).stderr


@pytest.mark.parametrize("file", ["flows/", "./flows", "flows.py"])
def test_a_folder_given_as_a_file_is_called_one(
    paths: StatePaths, invoke: Invoke, file: str
) -> None:
    (paths.home / file).mkdir()
    result = invoke("run", file, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "SOURCE_NOT_A_WORKFLOW"
    assert error["message"] == f"{file} is a folder; name a workflow file in it"


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [
        ("ambiguous", "effectAmbiguous", "r1 is ambiguous: nobody knows whether mail.send"),
        ("waiting", None, "r1 waits"),
        ("paused", None, "r1 is paused"),
        ("queued", "it changed; end it: pi-workflows cancel r1", "r1 is parked: it changed"),
    ],
)
def test_a_run_that_needs_somebody_says_so_with_the_next_command(
    serve: Serve, invoke: Invoke, status: str, reason: str | None, says: str
) -> None:
    display = {"status": status, "controls": []} | ({"reason": reason} if reason else {})
    effects = [{"effectId": "e", "effectType": "mail.send", "status": "ambiguous"}]
    parked = view(0, status, display=display, unresolvedEffects=effects)
    with serve(following(parked)):
        result = invoke("run", "echo")
    assert result.exit_code == 1
    assert says in result.stderr
    assert "pi-workflows " in result.stderr.partition(says)[2]


def test_document_of_a_run_that_needs_somebody_says_why_and_what_next(
    serve: Serve, invoke: Invoke
) -> None:
    why: JsonObject = {"code": "workflowSourceChanged", "reason": "it changed.", "next": "resume"}
    why["first"] = "restore the source"
    display: JsonObject = {"status": "queued", "controls": [], **why}
    with serve(following(view(0, "queued", display=display), state={"display": display})):
        machine, people = invoke("run", "echo", "--json"), invoke("run", "echo")
    assert machine.exit_code == 1
    assert json.loads(machine.stdout) == {"runId": "r1", "status": "queued", **why}
    assert "r1 is parked: it changed; next: restore the source, then resume" in people.stderr


def test_wait_for_another_try_is_told_once(serve: Serve, invoke: Invoke) -> None:
    retrying: JsonObject = {
        "nodeId": "put",
        "visit": 1,
        "failedTries": 2,
        "outcome": "failed",
        "nextTryAt": "2026-01-02T03:04:05.006Z",
        "error": "ConnectionError: refused",
    }
    waits = view(0, "queued", retrying=retrying)
    with serve(following(waits, {**waits, "revision": 1}, view(2, "completed"))):
        lines = invoke("run", "echo").stderr.splitlines()
    told = [line for line in lines if line.startswith("↻")]
    assert len(told) == 1
    assert told[0].startswith("↻ put  2 failed, next try 2026-01-0")
    assert told[0].endswith(": ConnectionError: refused")


def test_watch_json_prints_one_view_per_change(serve: Serve, invoke: Invoke) -> None:
    views = (view(0, "queued"), view(1, "running"), view(2, "completed"))
    with serve(following(*views)):
        result = invoke("watch", "r1", "--json")
    assert result.exit_code == 0
    assert [json.loads(line)["revision"] for line in result.stdout.splitlines()] == [0, 1, 2]


def test_watching_an_unknown_run_is_a_usage_error(serve: Serve, invoke: Invoke) -> None:
    unknown = Answer(outcome="notFound", error="no run r9", receipt={"code": "RUN_UNKNOWN"})
    with serve({"view.run.get": unknown}):
        result = invoke("watch", "r9")
    assert result.exit_code == 2
    assert result.stderr == "pi-workflows: no run r9\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_detaches_and_cancels_nothing(
    serve: Serve, start: Start, *, as_json: bool
) -> None:
    with serve(following()) as server:
        process = start("run", "echo", *(["--json"] if as_json else []))
        server.push("run_snapshot", view(0, "running", step(0, "look")), 0)
        server.await_request("view.run.watch")
        if not as_json:
            assert process.stderr is not None
            assert process.stderr.readline() == "run r1\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        operations = [request["operation"] for request in server.requests]
    assert process.returncode == 0
    assert "pi-workflows watch r1" in err
    assert "Traceback" not in err
    assert "run.cancel" not in operations
    if as_json:
        document = json.loads(out)
        assert document["runId"] == "r1"
        assert document["status"] in {"queued", "running"}
    else:
        assert out == ""


def test_a_terminal_shows_the_live_page_without_control_characters_of_the_run(
    serve: Serve, start: Start
) -> None:
    terminal, its_stderr = os.openpty()
    finished = view(1, "completed", step(0, "look", "failed"), step(1, "say"))
    with serve(following(finished, state={"finalOutput": "done"})):
        process = start("run", "echo", stderr=its_stderr)
        os.close(its_stderr)
        out, _ = process.communicate(timeout=120)
        drawn = _drain(terminal)
    os.close(terminal)
    assert process.returncode == 0
    assert out == "done\n"
    assert "completed" in drawn
    assert "look" in drawn
    assert "Boom: no[2J" in drawn
    assert "\x1b[2J" not in drawn


def _drain(terminal: int) -> str:
    drawn = b""
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # Linux ends a terminal without a writer by EIO.
            break
        if not data:
            break
        drawn += data
    return drawn.decode()
