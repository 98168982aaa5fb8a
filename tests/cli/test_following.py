"""An attached command comes back to its run after a crash of the server."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from pi_workflows.cli import following
from pi_workflows.cli.progress import Silent
from pi_workflows.client.channel import Channel, open_channel
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.canonical import canonical_bytes

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from pi_workflows.protocol.paths import StatePaths


def watching(status: str) -> Answer:
    view: JsonObject = {"display": {"status": status}, "manifest": {"runId": "r1"}}
    return Answer(events=[("run_snapshot", view, 1)])


class Lost(Silent):
    """Ends the first server when its view has arrived, and counts the losses."""

    def __init__(self, first: ExitStack) -> None:
        self._first = first
        self.losses = 0

    @override
    def show(self, view: JsonObject) -> None:
        del view
        self._first.close()

    @override
    def lost(self) -> None:
        self.losses += 1


@pytest.mark.skipif(sys.platform != "linux", reason="a crash is proven through /proc")
def test_a_crashed_server_is_started_again_and_the_run_followed_on(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    lock = {"pid": gone.pid, "startIdentity": "linux-proc-start:boot:1"}
    paths.lock.write_bytes(canonical_bytes(lock))
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(ScriptedServer(paths.socket, lambda _: watching("running")))

        def start_second(paths: StatePaths) -> Channel:
            server = ScriptedServer(paths.socket, lambda _: watching("completed"))
            second.enter_context(server)
            return open_channel(paths.socket)

        monkeypatch.setattr(following, "start_server", start_second)
        progress = Lost(first)
        ending = following.follow(paths, "r1", progress)
    assert ending == following.Ending(detached=False, status="completed", remark="")
    assert progress.losses >= 1
