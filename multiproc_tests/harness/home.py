"""One temporary home: its project, its servers, its command line, and what it must end as."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import trio

from multiproc_tests.harness import meeting_point
from multiproc_tests.harness.database import ORDER, Database
from multiproc_tests.harness.meetings import Arrival, Meetings
from multiproc_tests.harness.processes import (
    BOUND_S,
    ExactProcess,
    in_sessions,
    let_end,
    started_under,
)
from multiproc_tests.harness.servers import ROOT, RunningServer, Servers
from multiproc_tests.harness.shared_clock import LOOK_EVERY_S
from pi_workflows.client.asynchronous import LiveClient, unix_connector
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import open_channel
from pi_workflows.protocol.paths import StatePaths

HEAD: Final = """
from meeting_point import FOLDER, meet, note, shell_meeting
from pi_workflows import Command, Ctx, ShellResult, Workflow, idempotent, manual, observe
from pi_workflows import Retry, absent, applied

wf = Workflow("crashed")
"""

CONTROLLING: Final = (sys.executable, "-P", "-m", "pi_workflows.cli")

View = dict[str, Any]


class Home:
    """What one test works in.

    Attributes:
        expected_errors: the events that servers log as errors, in order; none ordinarily.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self.paths: Final = StatePaths(folder)
        self.project: Final = folder / "project"
        self.project.mkdir()
        shutil.copy(meeting_point.__file__, self.project / "meeting_point.py")
        kept = {name: value for name, value in os.environ.items() if "PI_WORKFLOWS" not in name}
        self.environment: Final = {**kept, "HOME": str(folder)}
        self.meetings: Final = Meetings(self.project / meeting_point.SOCKET.name)
        self.servers: Final = Servers(self.paths, self.environment)
        self.database: Final = Database(self.paths.database)
        self.expected_errors: Final[list[str]] = []
        self._watched: Final[list[ExactProcess]] = []
        self._strangers: Final[list[subprocess.Popen[bytes]]] = []

    def write(self, text: str, name: str = "crashed") -> Path:
        """Write a workflow file that declares its nodes and edges on `wf`."""
        path = self.project / f"{name}.workflow.py"
        path.write_text(HEAD + text)
        return path

    def run(self, text: str) -> str:
        """Start a run of this workflow from a process of its own, detached; return its id."""
        return self.run_file(self.write(text))

    def run_file(self, path: Path) -> str:
        """Start a run of a written workflow."""
        return self.run_named(str(path))

    def run_named(self, workflow: str) -> str:
        """Start a run of a workflow by its name or path."""
        arguments = ("run", workflow, "--project", str(self.project), "--detach", "--json")
        started = json.loads(self.command(*arguments))
        assert started.keys() == {"runId", "status"}
        return str(started["runId"])

    def command(self, *arguments: str, exit_code: int = 0) -> str:
        """Run one command to its end and return what it printed."""
        process = self.launch(*arguments)
        printed, errors = process.communicate(timeout=BOUND_S)
        assert process.returncode == exit_code, f"{arguments}: {printed}{errors}"
        return str(printed)

    def launch(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start one command."""
        return subprocess.Popen(
            [*CONTROLLING, *arguments],
            cwd=self.folder,
            env={**self.environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def launch_stranger(self, **environment: str) -> ExactProcess:
        """Start a process that is no part of the product and does nothing."""
        process = subprocess.Popen(
            [sys.executable, "-c", "import signal; signal.pause()"],
            env={**self.environment, **environment},
            start_new_session=True,
        )
        self._strangers.append(process)
        return self.watch(process.pid)

    def show(self, run_id: str) -> View:
        """Return the run state that `show --json` prints."""
        state: View = json.loads(self.command("show", run_id, "--json"))
        assert state["schema"] == "pi-workflows.run-state.v1"
        return state

    def listed(self) -> list[View]:
        """Return the runs that `list --json` prints, newest first."""
        return [json.loads(line) for line in self.command("list", "--json").splitlines()]

    def await_view(self, run_id: str, wanted: Callable[[View], bool]) -> View:
        """Watch the run on a subscription until its view is as wanted."""
        return trio.run(self._await_view, run_id, wanted)

    def await_steps(self, run_id: str, count: int) -> View:
        """Watch the run until it has recorded so many steps."""
        return self.await_view(run_id, lambda view: bool(view["steps"]["total"] >= count))

    def await_status(self, run_id: str, status: str) -> View:
        """Watch the run until its display status is this one."""
        return self.await_view(run_id, lambda view: bool(view["display"]["status"] == status))

    def notes(self) -> list[str]:
        """Return what the nodes have noted, in order."""
        path = self.project / meeting_point.NOTES.name
        return path.read_text().splitlines() if path.exists() else []

    def watch(self, pid: int) -> ExactProcess:
        """Watch a process until the end of the test."""
        process = ExactProcess(pid)
        self._watched.append(process)
        return process

    def arrive_later(self, *places: str) -> Arrival:
        """Let time pass, second by second, until a node arrives at one of `places`.

        It passes quickly, but no claim shall lapse and no runner be late for want of real time:
        meanwhile it stands. What has lapsed already is not waited for.
        """
        while not self.meetings.has_arrived(LOOK_EVERY_S):
            if not self.database.is_in_haste(self.servers.clock.wall_ms()):
                self.servers.clock.pass_time(1)
        return self.meetings.arrive(*places)

    def freeze_between_writes(self, server: RunningServer) -> None:
        """Let a server stand still while it holds no lock of the database.

        What a run has reported is durable, but its server still writes that it has ended.
        """
        server.freeze()
        while self.database.is_being_written():
            server.thaw()
            server.freeze()

    def assert_completed(self, run_id: str, steps: list[str], output: object) -> None:
        """Wait for the run's end and assert that it is right, by every surface that says so.

        Args:
            steps: node and visit of each recorded step, in order.
            output: the final output.
        """
        self.await_status(run_id, "completed")
        with BlockingClient(lambda: open_channel(self.paths.socket)) as client:
            state: View = client.run_state(run_id)
        assert state["finalOutput"] == output
        assert [f"{step['nodeId']} {step['visit']}" for step in state["steps"]] == steps
        assert {step["outcome"] for step in state["steps"]} == {"ok"}
        assert len({step["attemptId"] for step in state["steps"]}) == len(steps)
        assert self.database.column(ORDER, run_id) == steps
        assert state["effects"] == []
        self.assert_verified()

    def assert_verified(self) -> None:
        """Assert that `state verify` finds nothing."""
        report = json.loads(self.command("state", "verify", "--json"))
        assert (report["ok"], report["violations"]) == (True, [])

    def assert_stopped(self) -> None:
        """Stop the servers in order and assert that nothing of the test is left anywhere."""
        self.meetings.assert_nobody()
        for server in self.servers.alive:
            server.stop()
        if self.paths.lock.exists():
            self.command("server", "stop")
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                let_end(pid)
        left = self._left()
        assert not left, f"left behind: {left}"
        assert not self.paths.socket.exists()
        assert not self.paths.lock.exists()
        self.database.assert_at_rest()
        errors = [line for line in self.log() if line["level"] == "error"]
        assert [line["event"] for line in errors] == self.expected_errors, errors

    def _left(self) -> dict[int, str]:
        return started_under(self.folder) | in_sessions(self.database.runner_pids())

    def log(self) -> list[View]:
        """Return the lines of the servers' log."""
        path = self.paths.logs / "server.log"
        return (
            [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        )

    def await_logged(self, event: str, *, times: int = 1) -> View:
        """Wait until servers have logged this event so often; return the last of these lines."""
        for _ in range(int(BOUND_S / LOOK_EVERY_S)):
            lines = [line for line in self.log() if line["event"] == event]
            if len(lines) >= times:
                return lines[times - 1]
            select.select([], [], [], LOOK_EVERY_S)
        raise AssertionError(f"no server logged {event} {times} times")

    def refused_starts(self) -> list[str]:
        """Return the kind of error for which each server that was refused its start gave way."""
        refused = [line for line in self.log() if line["event"] == "start_refused"]
        assert {line["level"] for line in refused} <= {"info"}
        return [str(line["error"]).partition(":")[0] for line in refused]

    def told(self) -> str:
        """Return what the servers said and did, for the report of a failed test."""
        errors = [path.read_text() for path in sorted(self.folder.glob("server-*"))]
        lines = [json.dumps(line) for line in self.log()]
        return "\n".join([*errors, *lines, f"notes: {self.notes()}"])

    def close(self) -> dict[int, str]:
        """End what the test has left running, hard and exactly; return what that was."""
        self.servers.close()
        self.meetings.close()
        left = started_under(self.folder)
        for pid in left:
            try:
                with_pid = ExactProcess(pid)
            except ProcessLookupError:
                continue
            if pid in started_under(self.folder):
                with_pid.send(signal.SIGKILL)
                with_pid.await_end()
            with_pid.close()
        for process in self._watched:
            process.close()
        for stranger in self._strangers:
            stranger.wait(BOUND_S)
        return left

    async def _await_view(self, run_id: str, wanted: Callable[[View], bool]) -> View:
        seen: View = {}
        with trio.move_on_after(BOUND_S):
            async with LiveClient(unix_connector(self.paths.socket)) as client:
                watching = await client.watch("view.run.watch", run_id=run_id)
                async for event in watching.events:
                    if event.event == "run_snapshot":
                        seen = event.payload
                        if wanted(seen):
                            return seen
        raise AssertionError(f"the run never looked as expected; last: {json.dumps(seen)}")
