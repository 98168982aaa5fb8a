"""From the death of a server to the next step of a run it had in hand, with real processes.

Of 1 and of 64 runs each has a runner of its own when their server is killed. A thousand runners
would measure the machine's memory: of a thousand runs only the rows are there, as a server that
is gone has left them.
"""

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from bench.figures import Section
from bench.left_behind import leave_runs_behind
from bench.server_process import await_ready, launched_server
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import open_channel
from pi_workflows.protocol.paths import StatePaths
from runtime.template_program import start_template

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

WAIT_S: Final = 120.0
_SERVED_MAX: Final = 64
_SERVER: Final = "pi_workflows.server"
_RUNNER: Final = "pi_workflows.runner.entry"

_WORKFLOW: Final = '''"""One node that says that it runs and waits until it may go."""

import socket
from pathlib import Path

from pi_workflows import Ctx, Workflow

wf = Workflow("resumed")


@wf.compute()
def arrive(ctx: Ctx[None]) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(Path(__file__).parent / "arrivals"))
        connection.recv(1)
    return ctx.run_id


workflow = wf.build(start=arrive)
'''


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """How much is measured.

    Attributes:
        killed: numbers of runs with runners of their own.
        left: numbers of runs of which there are rows.
        rounds: how often each.
    """

    killed: tuple[int, ...]
    left: tuple[int, ...]
    rounds: int


@dataclass(slots=True)
class _Samples:
    first: list[float] = field(default_factory=list)
    all: list[float] = field(default_factory=list)


class Arrivals:
    """Where the nodes of all runs arrive, and wait."""

    def __init__(self, folder: Path) -> None:
        self._listener: Final = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "arrivals"))
        self._listener.listen(2_048)
        self._present: list[socket.socket] = []

    def wait(self, count: int) -> list[float]:
        """Wait for so many more; return when each came, by the monotonic clock in ms."""
        came: list[float] = []
        for _ in range(count):
            if not select.select([self._listener], [], [], WAIT_S)[0]:
                raise TimeoutError(f"{len(came)} of {count} runs have come to their node")
            self._present.append(self._listener.accept()[0])
            came.append(_now_ms())
        return came

    def forget(self) -> None:
        """Let go whoever waits."""
        for connection in self._present:
            connection.close()
        self._present.clear()

    @classmethod
    @contextmanager
    def at(cls, folder: Path) -> Iterator[Self]:
        """Listen where the workflow in `folder` looks for somebody."""
        arrivals = cls(folder)
        try:
            yield arrivals
        finally:
            arrivals.forget()
            arrivals._listener.close()


def write_workflow(folder: Path) -> Path:
    """Write the workflow that arrives, and return its path."""
    path = folder / "resumed.workflow.py"
    path.write_text(_WORKFLOW)
    return path


def start_runs(home: Path, count: int) -> None:
    """Have the server of `home` start so many runs of it."""
    payload: JsonObject = {
        "projectPath": str(home),
        "workflow": str(home / "resumed.workflow.py"),
    }
    paths = StatePaths(home)
    with BlockingClient(lambda: open_channel(paths.socket)) as client:
        for _ in range(count):
            client.call("run.start", payload)


def measure_restart(folder: Path, plan: RestartPlan) -> Section:
    """Measure in new homes inside `folder`."""
    section = Section(
        "Restart",
        "Server killed, next one started at once: until a run of the dead one is at its node.",
    )
    section.add("server_import", "ms", [_import_ms(_SERVER) for _ in range(plan.rounds)])
    section.add("runner_import", "ms", [_import_ms(_RUNNER) for _ in range(plan.rounds)])
    section.add("python_without_imports", "ms", [_import_ms("sys") for _ in range(plan.rounds)])
    section.add("template_start_to_ready", "ms", [_template_ms() for _ in range(plan.rounds)])
    for count in (*plan.killed, *plan.left):
        samples = _Samples()
        for number in range(plan.rounds):
            home = folder / f"r{count}-{number}"
            home.mkdir()
            measure = _after_kill if count in plan.killed else _after_rows
            measure(home, count, samples)
        section.add(f"restart_{count}_runs_to_first", "ms", samples.first)
        if count > 1:
            served = min(count, _SERVED_MAX)
            section.add(f"restart_{count}_runs_to_{served}_resumed", "ms", samples.all)
    return section


def _after_kill(home: Path, count: int, samples: _Samples) -> None:
    write_workflow(home)
    with Arrivals.at(home) as arrivals, launched_server(home, _SERVED_MAX) as killed:
        await_ready(killed, home)
        start_runs(home, count)
        arrivals.wait(count)
        begun = _now_ms()
        killed.kill()
        _resume(home, count, begun, arrivals, samples)


def _after_rows(home: Path, count: int, samples: _Samples) -> None:
    leave_runs_behind(home, write_workflow(home), count)
    with Arrivals.at(home) as arrivals:
        _resume(home, count, _now_ms(), arrivals, samples)


def _resume(home: Path, count: int, begun: float, arrivals: Arrivals, samples: _Samples) -> None:
    with launched_server(home, _SERVED_MAX):
        came = arrivals.wait(min(count, _SERVED_MAX))
        samples.first.append(came[0] - begun)
        samples.all.append(came[-1] - begun)


def _import_ms(module: str) -> float:
    """Return how long a new interpreter takes to import a module, its own start included."""
    begun = _now_ms()
    subprocess.run([sys.executable, "-P", "-c", f"import {module}"], check=True)
    return _now_ms() - begun


def _template_ms() -> float:
    begun = _now_ms()
    program = start_template()
    try:
        program.socket.recv(4_096)
        return _now_ms() - begun
    finally:
        program.abandon()


def _now_ms() -> float:
    return time.monotonic_ns() / 1e6
