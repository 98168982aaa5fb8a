"""Children that run a script, started by each of the two spawners."""

import contextlib
import random
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal

import pytest
import trio

from pi_workflows.protocol.template import MARKER_VARIABLE
from pi_workflows.runner.template import SPARES
from runtime.backoff import Backoff
from runtime.child_environment import child_environment
from runtime.clock import SystemClock
from runtime.exec_spawner import ExecSpawner
from runtime.log import Log, LogFile
from runtime.process import Child, ChildSpec, Spawner
from runtime.processes import SystemProcessTable
from runtime.program import Program, start_program
from runtime.registry import ProcessRegistry
from runtime.template_program import MARKER_BYTES, TEMPLATE_MODULE
from runtime.template_spawner import TemplateSpawner

MARKER: Final = "child-5f0c"
FOLDER: Final = Path(__file__).parent
Kind = Literal["exec", "fork", "spare"]

AT_ONCE: Final = Backoff(initial_ms=0, factor=1, delay_ms_max=0)
"""Lets a spawner try a new template with the next spawn."""

_TEMPLATE: Final = f"""
import sys
sys.path.insert(0, {str(FOLDER)!r})
from pi_workflows.runner.template import Warmth, main
from pi_workflows.runner.warming import exercise
main(sys.argv[2:], Warmth({{"scripted_entry": "scripted_entry"}}, exercise=EXERCISE))
"""


def script(
    code: str,
    *,
    cwd: str = "/",
    env: dict[str, str] | None = None,
    marker: str = MARKER,
    output_bytes_max: int = 65_536,
) -> ChildSpec:
    """Return a child that runs `code`; `fd` is there its end of the socket pair."""
    return ChildSpec(
        argv=(sys.executable, "-P", str(FOLDER / "scripted_entry.py"), "--fd", "{fd}"),
        cwd=cwd,
        env=child_environment({"SCRIPT": textwrap.dedent(code), **(env or {})}),
        marker=marker,
        module="scripted_entry",
        output_bytes_max=output_bytes_max,
    )


def shell(command: str) -> ChildSpec:
    """Return a child that becomes a shell."""
    return script(f"import os; os.execv('/bin/sh', ['sh', '-c', {command!r}])")


def scripted_template(*, has_spares: bool = False) -> Program:
    """Start a template whose children run scripts."""
    code = _TEMPLATE.replace("EXERCISE", "exercise" if has_spares else "None")
    argv = (sys.executable, "-P", "-c", code, TEMPLATE_MODULE, "--fd", "{fd}")
    marker = "template-77d1".ljust(MARKER_BYTES, ".")
    return start_program(argv, cwd="/", env=child_environment(), marker=marker)


@pytest.fixture
def registry(tmp_path: Path) -> ProcessRegistry:
    return ProcessRegistry(tmp_path / "host.children.json", SystemProcessTable())


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "server.log"


MakeForks = Callable[..., TemplateSpawner]


@pytest.fixture
def make_forks(registry: ProcessRegistry, log_path: Path) -> MakeForks:
    """Make spawners of templates; the caller closes them."""

    def make(start: Callable[[], Program] = scripted_template) -> TemplateSpawner:
        log = Log(LogFile(log_path), SystemClock(), "template")
        return TemplateSpawner(
            ExecSpawner(), registry, log, random.SystemRandom(), start=start, backoff=AT_ONCE
        )

    return make


@pytest.fixture
async def forks(make_forks: MakeForks) -> AsyncIterator[TemplateSpawner]:
    """A spawner whose template is warm."""
    made = make_forks()
    await warm(made)
    yield made
    await made.aclose()


async def warm(forks: TemplateSpawner) -> None:
    """Have a template and wait until all that it does by itself is done."""
    with trio.fail_after(120):
        async with started(forks, script("")) as child:
            await child.wait()


@pytest.fixture
async def spares(
    make_forks: MakeForks, registry: ProcessRegistry
) -> AsyncIterator[TemplateSpawner]:
    """A spawner whose template has all its spares."""
    made = make_forks(partial(scripted_template, has_spares=True))
    await warm(made)
    await await_spares(registry)
    yield made
    await made.aclose()


async def await_spares(registry: ProcessRegistry) -> list[int]:
    """Wait until the one template has all its spares; return their process ids."""
    (template,) = registry.children()
    with trio.fail_after(120):
        while len(found := children_of(template.identity.pid)) < SPARES:
            await trio.lowlevel.checkpoint()
    return found


@pytest.fixture(params=["exec", "fork", "spare"])
async def spawner(
    request: pytest.FixtureRequest, make_forks: MakeForks, registry: ProcessRegistry
) -> AsyncIterator[Spawner]:
    """Each way in which production starts a child."""
    kind: Kind = request.param
    if kind == "exec":
        yield ExecSpawner()
        return
    made = make_forks(partial(scripted_template, has_spares=kind == "spare"))
    await warm(made)
    if kind == "spare":
        await await_spares(registry)
    yield made
    await made.aclose()


@asynccontextmanager
async def started(spawner: Spawner, spec: ChildSpec) -> AsyncIterator[Child]:
    """Have a child that is ended when the test is done with it."""
    with trio.fail_after(120):
        child = await spawner.spawn(spec)
        try:
            yield child
        finally:
            await child.stop(grace_s=0)


def children_of(parent: int) -> list[int]:
    """Return the living children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and parent_of(int(entry.name)) == parent:
                found.append(int(entry.name))
    return found


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 of one that has ended.

    Raises:
        OSError: there is no such process.
    """
    state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    return 0 if state == "Z" else int(parent)


def marker_of(pid: int) -> list[str]:
    """Return the markers that /proc shows of a process."""
    settings = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return [setting for setting in settings if setting.startswith(MARKER_VARIABLE)]
