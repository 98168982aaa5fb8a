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
from pi_workflows.client.errors import ServerStopped
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.canonical import canonical_bytes
from pi_workflows.protocol.errors import ExitCode

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from pi_workflows.protocol.paths import StatePaths
    from tests.cli.conftest import Serve, Start


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
    assert (ending.detached, ending.status, ending.remark) == (False, "completed", "")
    assert progress.losses >= 1


def test_a_server_that_was_stopped_in_order_is_not_waited_for(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lock file is left: nobody crashed, and nobody but a person starts the next one."""

    def refuse(_: StatePaths) -> Channel:
        raise AssertionError("a stopped server stays stopped")

    monkeypatch.setattr(following, "start_server", refuse)
    with ExitStack() as first:
        first.enter_context(ScriptedServer(paths.socket, lambda _: watching("running")))
        progress = Lost(first)
        with pytest.raises(ServerStopped) as stopped:
            following.follow(paths, "r1", progress)
    assert stopped.value.message == (
        "the server was stopped; r1 is parked and goes on when a server runs again:"
        " pi-workflows watch r1"
    )
    assert stopped.value.exit_code == ExitCode.UNAVAILABLE
    assert progress.losses == 2


def test_reader_that_has_seen_enough_ends_the_watch_without_a_word(
    serve: Serve, start: Start
) -> None:
    """As in `watch RUN --json | head -1`."""
    answers = {"view.run.get": Answer(receipt={}), "view.run.watch": watching("running")}
    with serve(answers):
        process = start("watch", "r1", "--json")
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=120) == ExitCode.FAILED
