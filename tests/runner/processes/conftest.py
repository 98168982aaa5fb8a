"""The real child process over a socket pair, with the scripted server at the other end."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pytest

import pi_workflows
from pi_workflows.authoring.loading import load_file, source_identity
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameDecoder, encode_frame, parse_canonical
from pi_workflows.runner.messages import Send

if TYPE_CHECKING:
    from tests.runner.conftest import ScriptedServer

BOUND_S: Final = 120.0
ROOT: Final = Path(pi_workflows.__file__).resolve().parent.parent
HEAD: Final = """
import sys, threading
from pathlib import Path
from pi_workflows import Command, Ctx, Workflow, idempotent, manual
wf = Workflow("child")
here = Path(__file__).parent
"""
IMPATIENT: Final = (
    "import sys; from pi_workflows.runner.__main__ import main; "
    "from pi_workflows.runner.child import ChildOptions; "
    "main(sys.argv[1:], ChildOptions(grace_ms=50))"
)


class Child:
    """One runner process and this end of its socket.

    Args:
        text: of the workflow file, after `HEAD`.
    """

    def __init__(self, folder: Path, text: str, server: "ScriptedServer") -> None:
        self.server = server
        self.file = folder / "child.workflow.py"
        self.file.write_text(HEAD + text)
        self._source = source_identity(self.file)
        self.exiting: JsonObject | None = None
        self._decoder = FrameDecoder()
        self._lines: list[bytes] = []
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(BOUND_S)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", IMPATIENT, "--fd", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    def launch(self, **changed: str) -> None:
        source, source_hash = self._source
        digest = changed.get("digest") or load_file(self.file, source).digest()
        self.send(
            {
                "schema": "pi-workflows.runner-launch.v1",
                "runId": "run-1",
                "generation": 3,
                "runnerEpoch": "epoch-1",
                "projectPath": str(self.file.parent),
                "workflowSource": {
                    "root": {"kind": "file", "path": str(self.file), "hash": source_hash},
                    "mounts": [],
                },
                "definitionDigest": digest,
                "inputHash": "",
                "protocolVersion": 1,
            }
        )

    def send(self, frame: JsonObject) -> None:
        self.connection.sendall(encode_frame(frame))

    def receive(self) -> JsonObject | None:
        """The next message; None at the end of the stream."""
        while not self._lines:
            data = self.connection.recv(65_536)
            if not data:
                return None
            self._lines += self._decoder.feed(data)
        return parse_canonical(self._lines.pop(0))

    def answer(self, message: JsonObject) -> None:
        assert (message["runId"], message["generation"]) == ("run-1", 3)
        if message["operation"] == "runner.exiting":
            self.exiting = cast("JsonObject", message["payload"])
        reply = self.server.answer(
            Send(
                cast("str", message["operation"]),
                cast("JsonObject", message["payload"]),
                cast("int | None", message["expectedRevision"]),
            )
        )
        self.send(
            {
                "messageId": message["messageId"],
                "outcome": reply.outcome.value,
                "revision": reply.revision,
                "result": reply.result,
            }
            | ({} if reply.error is None else {"error": reply.error})
        )

    def serve(self, *, until: Callable[[], bool] = lambda: False) -> None:
        """Answer messages until a condition holds or the child closes its end."""
        while not until():
            message = self.receive()
            if message is None:
                return
            self.answer(message)

    def serve_until_running(self, node_id: str) -> None:
        """Answer until the node's code may run."""
        active = self.server
        self.serve(until=lambda: active.active is not None and active.active["nodeId"] == node_id)

    def end(self) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of the ended child."""
        out, errors = self.process.communicate(timeout=BOUND_S)
        return self.process.returncode, out, errors

    def close(self) -> None:
        self.connection.close()
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # What it has forked holds its output.
        self.process.communicate()


Launcher = Callable[[str], Child]


@pytest.fixture
def child(
    tmp_path: Path, server: "ScriptedServer", monkeypatch: pytest.MonkeyPatch
) -> Iterator[Launcher]:
    monkeypatch.setattr(sys, "path", list(sys.path))  # Loading a file extends it.
    started: list[Child] = []

    def start(text: str) -> Child:
        started.append(Child(tmp_path, text, server))
        return started[-1]

    yield start
    for one in started:
        one.close()
