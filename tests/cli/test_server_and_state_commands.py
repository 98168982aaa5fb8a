"""`server` and `state`: shapes, exit codes, what starts nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pi_workflows.cli import server_commands
from pi_workflows.cli.status_pages import size
from pi_workflows.client import discovery
from pi_workflows.client.discovery import StartTiming
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.canonical import JsonObject, canonical_bytes
from pi_workflows.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pi_workflows.protocol.paths import StatePaths
    from tests.cli.conftest import Invoke, Serve, Start

CROWDED = Answer(receipt={"code": "LIMIT_REACHED"}, outcome="unavailable", error="256 clients")
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
    assert people.stdout == "server\n  state  ready\n  PID    7\n  epoch  3\n  id     s\n"


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
        assert process.wait(120) == -15
    assert json.loads(result.stdout) == {"stopping": True, "stopped": True}


def test_server_stop_ends_the_exact_process_that_holds_the_lock_and_says_no_hello(
    paths: StatePaths, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given time to end by itself first: 10 s in the product."""
    monkeypatch.setattr(server_commands, "LOST_MS", 1)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        write_lock(paths, process)
        result = invoke("server", "stop", "--json")
        assert process.wait(120) == -15
    assert json.loads(result.stdout) == {"stopping": True, "stopped": True}


def test_server_stop_ends_a_server_that_has_no_room_for_the_question(
    paths: StatePaths, serve: Serve, invoke: Invoke
) -> None:
    """Whoever runs wild with connections does not keep it from being stopped."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        write_lock(paths, process)
        with serve({"server.stop": CROWDED}):
            result = invoke("server", "stop", "--json")
        assert process.wait(120) == -15
    assert json.loads(result.stdout) == {"stopping": True, "stopped": True}


def test_server_stop_says_so_when_it_can_neither_ask_nor_prove_who_serves(
    serve: Serve, invoke: Invoke
) -> None:
    with serve({"server.stop": CROWDED}):
        result = invoke("server", "stop")
    assert result.exit_code != 0
    assert "256 clients" in result.stderr


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
    counts: JsonObject = {"runs": {"completed": 2, "failed": 1}, "queue": {}}
    facts = Answer(
        receipt={"databaseBytes": 4096, "counts": counts, "unsettledEffects": 1, "newFact": [1]}
    )
    with serve({"state.status": facts}):
        assert json.loads(invoke("state", "status", "--json").stdout) == facts.receipt
        people = invoke("state", "status").stdout
    assert people.splitlines() == [
        "database",
        "  size               4.0 KiB",
        "",
        "stored",
        "  runs               2 completed, 1 failed",
        "  queue              none",
        "",
        "unsettled",
        "  unsettled effects  1",
        "",
        "other",
        "  newFact            [1]",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1_023, "1023 bytes"),
        (1_536, "1.5 KiB"),
        (5 * 1024**2, "5.0 MiB"),
        (2**60, "1048576.0 TiB"),
    ],
)
def test_sizes_read_as_people_say_them(count: int, text: str) -> None:
    assert size(count) == text


def test_server_run_that_is_refused_prints_code_and_text_as_json(invoke: Invoke) -> None:
    environment = {"PI_WORKFLOWS_MAX_RUNNERS": "abc"}
    machine = invoke("server", "run", "--json", environment=environment)
    people = invoke("server", "run", environment=environment)
    assert (machine.exit_code, people.exit_code) == (2, 2)
    text = "PI_WORKFLOWS_MAX_RUNNERS must be a positive integer, not 'abc'"
    assert json.loads(machine.stdout) == {"error": {"code": "USAGE", "message": text}}
    assert people.stdout == ""
    assert people.stderr == machine.stderr == f"pi-workflows: {text}\n"


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("PI_WORKFLOWS_MAX_RUNNERS=0", "must be a positive integer, not '0'"),
        ("PI_WORKFLOWS_IDLE_EXIT_MS=soon", "must be a number of milliseconds, not 'soon'"),
        ("PI_WORKFLOWS_RUNNER_START=exce", "must be unset or 'exec', not 'exce'"),
    ],
)
def test_an_unusable_setting_is_one_message_at_once_and_no_server_is_tried_again(
    paths: StatePaths,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    text: str,
) -> None:
    """The server is a real one, which may take its time on a busy machine."""
    monkeypatch.setattr(discovery, "StartTiming", partial(StartTiming, wait_ms=120_000))
    name, _, value = setting.partition("=")
    result = invoke("run", "echo", "--json", environment={name: value})
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"] == {"code": "USAGE", "message": f"{name} {text}"}
    assert result.stderr == f"pi-workflows: {name} {text}\n"
    assert (paths.logs / "server.output").read_text().count(name) <= 1


def test_server_run_on_a_terminal_says_when_it_serves_and_when_it_stops(
    paths: StatePaths, start: Start
) -> None:
    shutil.rmtree(paths.state_dir)  # The server makes its own, which nobody else may enter.
    terminal, its_stderr = os.openpty()
    process = start("server", "run", stderr=its_stderr)
    os.close(its_stderr)
    said = os.read(terminal, 4_096).decode()
    assert said == f"serving PID {process.pid}, socket {paths.socket}; Ctrl-C stops it\r\n"
    process.send_signal(signal.SIGINT)
    assert os.read(terminal, 4_096).decode().startswith("stopping; its runs are parked")
    out, _ = process.communicate(timeout=120)
    os.close(terminal)
    assert (process.returncode, out) == (0, "")


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
