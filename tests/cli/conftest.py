"""What the command line tests share: a home, a scripted server, and two ways to run commands."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pi_workflows.cli.main import root
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.paths import StatePaths

Invoke = Callable[..., Result]
Serve = Callable[[Mapping[str, Answer]], ScriptedServer]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatePaths]:
    # pytest's own folders are too deep for a socket path.
    with tempfile.TemporaryDirectory(prefix="pw-") as home:
        paths = StatePaths(Path(home))
        paths.logs.mkdir(parents=True)
        monkeypatch.setenv("HOME", home)
        monkeypatch.chdir(home)
        yield paths


@pytest.fixture
def serve(paths: StatePaths) -> Serve:
    """Return what makes a server of one fixed answer per operation; the test enters it."""

    def make(answers: Mapping[str, Answer]) -> ScriptedServer:
        def script(request: JsonObject) -> Answer:
            return answers[str(request["operation"])]

        return ScriptedServer(paths.socket, script)

    return make


@pytest.fixture
def invoke(paths: StatePaths) -> Invoke:
    """Return what runs the command in this process, standard error being no terminal."""
    del paths

    def run(
        *arguments: str, stdin: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Result:
        return CliRunner().invoke(root, arguments, input=stdin, env=environment)

    return run


@pytest.fixture
def start(paths: StatePaths) -> Iterator[Start]:
    """Return what starts the command as a process; it is gone when the test ends."""
    processes: list[subprocess.Popen[str]] = []

    def run(*arguments: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pi_workflows.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "HOME": str(paths.home), "COLUMNS": "100", "TERM": "xterm"},
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()
