"""Tab offers what there is, quickly, and starts and says nothing."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from pi_workflows.cli import completion_command
from pi_workflows.cli.main import root
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.paths import StatePaths

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke, Serve

SOURCES: Final = {
    "bash": "complete -o nosort -F _pi_workflows_completion pi-workflows",
    "zsh": "compdef _pi_workflows_completion pi-workflows",
    "fish": "complete --no-files --command pi-workflows",
}


def run_of(run_id: str, status: str) -> JsonObject:
    return {"runId": run_id, "workflowName": "tally", "display": {"status": status}}


RUNS: Final = Answer(
    receipt={
        "items": [
            run_of("2026-c", "running"),
            run_of("2026-b", "completed"),
            run_of("2025-a", "queued"),
        ],
        "nextCursor": "more",
    }
)
EFFECTS: Final = Answer(
    receipt={
        "items": [
            {"effectId": "effect-1", "effectType": "mail", "status": "ambiguous"},
            {"effectId": "effect-2", "effectType": "mail", "status": "applying"},
        ],
        "nextCursor": None,
    }
)
FOLLOW_UPS: Final = Answer(
    receipt={
        "items": [
            {"followUpId": f"follow-up-{number}", "state": state, "prompt": "Write\na note."}
            for number, state in enumerate(("sent", "queued", "ready", "removed"))
        ],
        "next": None,
    }
)


def offered(*words: str) -> list[CompletionItem]:
    """Return what Tab offers behind these words; the last one is unfinished."""
    *finished, incomplete = words
    shell = ShellComplete(root, {}, completion_command.PROGRAM, completion_command.VARIABLE)
    return shell.get_completions(list(finished), incomplete)


def values(*words: str) -> list[str]:
    return [str(item.value) for item in offered(*words)]


def test_commands_and_options_are_offered(paths: StatePaths) -> None:
    del paths
    assert values("sta") == ["state"]
    assert "--detach" in values("run", "--d")
    assert values("list", "--status", "com") == ["completed"]
    assert set(values("server", "")) == {"start", "run", "status", "stop"}
    assert values("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("show", ""), ["2026-c", "2026-b", "2025-a"]),
        (("show", "2026"), ["2026-c", "2026-b"]),
        (("show", "nothing"), []),
        (("watch", ""), ["2026-c", "2026-b", "2025-a"]),
        (("cancel", ""), ["2026-c", "2025-a"]),
        (("resume", ""), ["2026-c", "2025-a"]),
        (("pause", ""), ["2026-c", "2025-a"]),
        (("restart", ""), ["2026-b"]),
        (("effects", "list", ""), ["2026-c", "2026-b", "2025-a"]),
        (("effects", "resolve", ""), ["effect-1"]),
        (("follow-up", "add", ""), ["2026-c", "2025-a"]),
        (("follow-up", "remove", "2026-c", ""), ["follow-up-1", "follow-up-2"]),
    ],
)
def test_ids_come_from_the_server_that_runs(
    serve: "Serve", words: tuple[str, ...], ids: list[str]
) -> None:
    with serve({"run.list": RUNS, "effect.list": EFFECTS, "followUp.list": FOLLOW_UPS}):
        assert values(*words) == ids


def test_state_and_prompt_stand_beside_a_follow_up(serve: "Serve") -> None:
    with serve({"followUp.list": FOLLOW_UPS}):
        told = [item.help for item in offered("follow-up", "remove", "2026-c", "follow-up-1")]
    assert told == ["queued Write a note."]


def test_status_and_workflow_stand_beside_a_run(serve: "Serve") -> None:
    with serve({"run.list": RUNS}):
        assert [item.help for item in offered("show", "2026-c")] == ["running tally"]


def test_no_more_is_asked_for_than_is_shown(paths: StatePaths) -> None:
    asked: list[JsonObject] = []

    def script(request: JsonObject) -> Answer:
        asked.append(request)
        return RUNS

    with ScriptedServer(paths.socket, script):
        values("show", "")
    assert [(request["operation"], request["payload"]) for request in asked] == [
        ("run.list", {"limit": 100})
    ]


def test_nothing_is_offered_started_or_said_without_a_server(
    paths: StatePaths, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sorted(paths.home.rglob("*"))
    assert values("show", "") == []
    assert sorted(paths.home.rglob("*")) == before
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(outcome="unavailable", error="stopping"),
        Answer(outcome="rejected", error="no"),
        Answer(receipt={"items": "none"}),
        Answer(receipt={"items": ["x", {"runId": 7}, {}]}),
        Answer(lost=True),
    ],
)
def test_server_that_has_no_list_to_give_is_no_error(
    serve: "Serve", answer: Answer, capfd: pytest.CaptureFixture[str]
) -> None:
    with serve({"run.list": answer}):
        assert values("show", "") == []
    assert capfd.readouterr() == ("", "")


def test_server_of_another_version_is_no_error(paths: StatePaths) -> None:
    with ScriptedServer(paths.socket, lambda _: RUNS, package_version="0.0.9"):
        assert values("show", "") == []


def test_home_that_is_too_long_or_unset_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/" + "x" * 200)
    assert values("show", "") == []


def test_workflows_are_offered_by_name_and_as_files(paths: StatePaths) -> None:
    """The project's, the user's and those of the package; a path is left to the shell."""
    for folder in (Path(".pi/workflows"), paths.home / "other" / ".pi/workflows"):
        folder.mkdir(parents=True, exist_ok=True)
    Path(".pi/workflows/report.workflow.py").touch()
    (paths.home / ".pi/agent/workflows/mine.workflow.py").touch()
    (paths.home / "other/.pi/workflows/elsewhere.workflow.py").touch()
    assert [(item.value, item.type) for item in offered("run", "")] == [
        ("builtin:monitor", "plain"),
        ("mine", "plain"),
        ("monitor", "plain"),
        ("report", "plain"),
        ("", "file"),
    ]
    assert [item.value for item in offered("run", "re")] == ["report", "re"]
    assert values("run", "--project", "other", "else") == ["elsewhere", "else"]


@pytest.mark.parametrize("shell", SOURCES)
def test_each_shell_gets_its_lines(shell: str, paths: StatePaths) -> None:
    """Click asks bash for its version, so it is a process of its own."""
    command = [sys.executable, "-m", "pi_workflows.cli", "completion", shell]
    environment = {**os.environ, "HOME": str(paths.home)}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert SOURCES[shell] in printed.stdout
    assert printed.stderr == ""


def test_json_holds_the_lines(invoke: "Invoke") -> None:
    document = json.loads(invoke("completion", "fish", "--json").stdout)
    assert document["shell"] == "fish"
    assert SOURCES["fish"] in document["script"]


def test_unknown_shell_is_a_usage_error(invoke: "Invoke") -> None:
    refused = invoke("completion", "tcsh")
    assert refused.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in refused.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_runs_with_the_printed_lines(paths: StatePaths, serve: "Serve") -> None:
    """As documented: one line in the start-up file, then Tab."""
    program = paths.home / "bin" / "pi-workflows"
    program.parent.mkdir()
    interpreter = shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nexec {interpreter} -m pi_workflows.cli "$@"\n')
    program.chmod(0o755)
    typed = """
        eval "$(pi-workflows completion bash)"
        COMP_WORDS=(pi-workflows show 2026)
        COMP_CWORD=2
        _pi_workflows_completion pi-workflows 2026 show
        echo "${COMPREPLY[@]}"
    """
    path = f"{program.parent}:{os.environ['PATH']}"
    with serve({"run.list": RUNS}):
        ended = subprocess.run(
            ["bash", "--norc", "-c", typed],
            env={**os.environ, "HOME": str(paths.home), "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
    assert ended.stdout == "2026-c 2026-b\n"
    assert ended.stderr == ""


def test_server_that_is_silent_costs_less_than_a_second(paths: StatePaths) -> None:
    """Somebody holds the socket and says nothing."""
    import socket  # noqa: PLC0415 - only here

    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(os.fspath(paths.socket))
        deaf.listen()
        began_at = time.monotonic()
        assert values("show", "") == []
        assert time.monotonic() - began_at < 120  # A bound, not a measure: nobody waits for ever.
