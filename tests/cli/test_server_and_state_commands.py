"""`server` and `state`: shapes, exit codes, what starts nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.canonical import JsonObject, canonical_bytes
from pi_workflows.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pi_workflows.protocol.paths import StatePaths
    from tests.cli.conftest import Invoke, Serve

STATUS = Answer(receipt={"state": "ready", "pid": 7, "epoch": 3, "serverId": "s"})


def write_lock(paths: StatePaths, process: subprocess.Popen[bytes]) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    ticks = stat.rpartition(")")[2].split()[19]
    lock = {
        "schema": "pi-workflows.server-lock.v1",
        "pid": process.pid,
        "startIdentity": f"linux-proc-start:{boot_id}:{ticks}",
        "serverId": "s",
    }
    paths.lock.write_bytes(canonical_bytes(lock))


def test_server_status_json_has_pid_and_epoch(serve: Serve, invoke: Invoke) -> None:
    with serve({"server.status": STATUS}):
        machine = invoke("server", "status", "--json")
        people = invoke("server", "status")
    assert json.loads(machine.stdout) == STATUS.receipt
    assert "epoch     3" in people.stdout


def test_server_status_without_a_server_is_exit_3_and_starts_none(
    paths: StatePaths, invoke: Invoke
) -> None:
    people = invoke("server", "status")
    machine = invoke("server", "status", "--json")
    assert (people.exit_code, machine.exit_code) == (3, 3)
    assert "no workflow server answers" in people.stderr
    error = json.loads(machine.stdout)["error"]
    assert error["code"] == ErrorCode.SERVER_UNAVAILABLE
    assert not (paths.logs / "server.output").exists()


def test_server_start_reports_the_running_server(serve: Serve, invoke: Invoke) -> None:
    with serve({"server.status": STATUS}):
        assert invoke("server", "start").stdout == "the server runs, PID 7\n"


def test_server_stop_without_a_server_is_fine(invoke: Invoke) -> None:
    result = invoke("server", "stop", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"stopping": False, "stopped": False}


def test_server_stop_waits_for_the_process_to_end(
    paths: StatePaths, serve: Serve, invoke: Invoke
) -> None:
    # Its standard input closes when the question has arrived: an end after the answer.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        write_lock(paths, process)
        stop = Answer(receipt={"stopping": True})
        with serve({"server.stop": stop}) as server:
            assert process.stdin is not None
            process.stdin.close()
            result = invoke("server", "stop", "--json")
        assert [request["operation"] for request in server.requests] == ["server.stop"]
    assert json.loads(result.stdout) == {"stopping": True, "stopped": True}


def test_server_stop_ends_the_exact_process_of_another_version(
    paths: StatePaths, invoke: Invoke
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        write_lock(paths, process)
        with ScriptedServer(paths.socket, lambda _: Answer(), package_version="0.0.9"):
            result = invoke("server", "stop", "--json")
        assert process.wait(20) == -15
    assert json.loads(result.stdout) == {"stopping": True, "stopped": True}


def test_server_stop_spares_a_process_that_only_has_the_holders_pid(
    paths: StatePaths, invoke: Invoke
) -> None:
    lock = {"pid": os.getpid(), "startIdentity": "linux-proc-start:other:1"}
    paths.lock.write_bytes(canonical_bytes(lock))
    with ScriptedServer(paths.socket, lambda _: Answer(), package_version="0.0.9"):
        result = invoke("server", "stop")
    assert result.exit_code == 3
    assert "end it by hand" in result.stderr


@pytest.mark.parametrize(("ok", "exit_code"), [(True, 0), (False, 1)])
def test_state_verify_json_has_ok_and_decides_the_exit_code(
    serve: Serve, invoke: Invoke, *, ok: bool, exit_code: int
) -> None:
    findings = Answer(receipt={"ok": ok, "violations": []})
    with serve({"state.verify": findings}):
        result = invoke("state", "verify", "--json")
    assert result.exit_code == exit_code
    assert json.loads(result.stdout)["ok"] is ok


def test_state_verify_names_each_violation(serve: Serve, invoke: Invoke) -> None:
    violation: JsonObject = {"code": "stepOrder", "runId": "r1", "detail": "steps not 0..n-1"}
    with serve({"state.verify": Answer(receipt={"ok": False, "violations": [violation]})}):
        result = invoke("state", "verify")
    assert "stepOrder" in result.stdout
    assert result.stdout.endswith("the state is not sound\n")


def test_state_status_prints_counts(serve: Serve, invoke: Invoke) -> None:
    facts = Answer(receipt={"databaseBytes": 4096, "counts": {"runs": 2}})
    with serve({"state.status": facts}):
        assert json.loads(invoke("state", "status", "--json").stdout) == facts.receipt
        assert 'counts         {"runs": 2}' in invoke("state", "status").stdout


def test_a_home_that_is_no_folder_is_one_clear_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    home = tmp_path / "h"
    home.write_text("")
    monkeypatch.setenv("HOME", str(home))
    result = invoke("list", "--json")
    assert result.exit_code == 3
    error = json.loads(result.stdout)["error"]
    assert error["code"] == ErrorCode.STATE_DIRECTORY_UNUSABLE
    assert "set HOME" in error["message"]


def test_a_home_too_deep_for_a_socket_is_one_clear_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """Case: C8."""
    monkeypatch.setenv("HOME", str(tmp_path / ("h" * 100)))
    result = invoke("run", "name", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["error"]["code"] == ErrorCode.SOCKET_PATH_TOO_LONG
    assert not any(tmp_path.iterdir())
