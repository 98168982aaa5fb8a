"""Behaviour of forks of a template, and of what takes over when there is none."""

import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from runtime import template_link
from runtime.errors import SpawnFailed
from runtime.identity import Liveness, ProcessIdentity, identity_of, is_alive
from runtime.process import UNKNOWN_EXIT, Child, ChildSpec, ExitStatus
from runtime.program import Program, start_program
from runtime.registry import ProcessRegistry, read_registry
from runtime.template_program import (
    MARKER_BYTES,
    START_VARIABLE,
    TEMPLATE_MODULE,
    has_template,
    start_template,
)
from runtime.template_spawner import TemplateSpawner
from tests.runtime.children.conftest import (
    MARKER,
    MakeForks,
    await_spares,
    marker_of,
    parent_of,
    script,
    scripted_template,
    shell,
    started,
    warm,
)


def _template(registry: ProcessRegistry) -> ProcessIdentity:
    (template,) = registry.children()
    return template.identity


async def _shell_of(child: Child) -> ProcessIdentity:
    found = identity_of(int(await child.stream.receive_some(20)))
    assert found is not None
    return found


def _log(path: Path, event: str) -> list[dict[str, object]]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in records if record["event"] == event]


def _template_that_says(text: str) -> Callable[[], Program]:
    code = f"import os, sys; os.write(int(sys.argv[1]), {text!r}.encode() + b'\\n')"
    argv = (sys.executable, "-c", code, "{fd}")
    return lambda: start_program(argv, cwd="/", env={}, marker="template-77d1")


async def test_child_is_forked_and_says_so_to_nobody(
    forks: TemplateSpawner, registry: ProcessRegistry
) -> None:
    async with started(forks, script("import os; os.read(fd, 1)")) as child:
        assert parent_of(child.pid) == _template(registry).pid
        assert marker_of(child.pid) == [f"PI_WORKFLOWS_CHILD={MARKER}"]
        assert b"scripted_entry" in _arguments(child.pid)
        assert TEMPLATE_MODULE.encode() not in _arguments(child.pid)


async def test_template_looks_like_itself_between_two_forks(
    forks: TemplateSpawner, registry: ProcessRegistry
) -> None:
    template = _template(registry).pid
    before = _arguments(template)
    assert TEMPLATE_MODULE.encode() in before
    async with started(forks, script("")) as child:
        await child.wait()
    with pytest.raises(SpawnFailed):
        await forks.spawn(script("", cwd="/no/such/folder"))
    assert _arguments(template) == before
    (marker,) = marker_of(template)
    assert marker == "PI_WORKFLOWS_CHILD=" + "template-77d1".ljust(MARKER_BYTES, ".")
    assert os.readlink(f"/proc/{template}/cwd") == "/"  # noqa: PTH115 - no gain from a path


async def test_template_keeps_no_descriptor_of_its_children(
    forks: TemplateSpawner, registry: ProcessRegistry
) -> None:
    template = _template(registry).pid
    before = _descriptors_of(template)
    async with started(forks, shell("sleep 300")), started(forks, shell("exit 0")) as last:
        await last.wait()  # It has been reaped, so all that went before is done.
        assert _descriptors_of(template) == before


async def test_spares_become_the_next_children_and_are_replaced(
    spares: TemplateSpawner, registry: ProcessRegistry
) -> None:
    waiting = await await_spares(registry)
    code = "import os; os.read(fd, 1)"
    async with started(spares, script(code)) as first, started(spares, script(code)) as second:
        assert {first.pid, second.pid} == set(waiting)
        async with started(spares, script(code)) as third:
            assert third.pid not in waiting
    assert set(await await_spares(registry)).isdisjoint(waiting)


async def test_spare_that_was_killed_costs_no_spawn(
    spares: TemplateSpawner, registry: ProcessRegistry
) -> None:
    killed = await await_spares(registry)
    for spare in killed:
        os.kill(spare, signal.SIGKILL)
        await _await_ended(spare)
    async with started(spares, script("")) as child:
        assert child.pid not in killed
        assert await child.wait() == ExitStatus(0, None)


async def test_spares_end_with_their_template_however_it_ends(
    spares: TemplateSpawner, registry: ProcessRegistry
) -> None:
    waiting = await await_spares(registry)
    template = _template(registry)
    os.kill(template.pid, signal.SIGKILL)
    for spare in waiting:
        await _await_ended(spare)
    await _await_gone(template)
    async with started(spares, script("")) as child:
        await child.wait()
        again = [identity_of(spare) for spare in await await_spares(registry)]
    await spares.aclose()
    for member in again:
        assert member is not None
        assert is_alive(member) is Liveness.GONE


async def test_child_without_a_module_is_started_by_exec(forks: TemplateSpawner) -> None:
    spec = ChildSpec(argv=("/bin/sleep", "300"), cwd="/", env={}, marker=MARKER)
    async with started(forks, spec) as child:
        assert parent_of(child.pid) == os.getpid()


async def test_module_that_the_template_does_not_know_is_started_by_exec(
    forks: TemplateSpawner,
) -> None:
    spec = ChildSpec(
        argv=("/bin/sleep", "300"), cwd="/", env={}, marker=MARKER, module="somebody.elses"
    )
    async with started(forks, spec) as child:
        assert parent_of(child.pid) == os.getpid()


async def test_environment_or_marker_that_no_request_can_carry_takes_an_exec(
    forks: TemplateSpawner, log_path: Path
) -> None:
    large = {f"LARGE_{number}": "x" * 100_000 for number in range(11)}
    for spec in (script("", env=large), script("", marker="m" * (MARKER_BYTES + 1))):
        async with started(forks, spec) as child:
            assert parent_of(child.pid) == os.getpid()
            assert await child.wait() == ExitStatus(0, None)
    assert len(_log(log_path, "fork_impossible")) == 2


async def test_many_spawns_at_once_each_get_their_own_child(forks: TemplateSpawner) -> None:
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        async with started(forks, script(f"import os; os.write(fd, b'{number}')")) as child:
            answers[number] = bytes(await child.stream.receive_some(10)).decode()
            assert await child.wait() == ExitStatus(0, None)

    async with trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(ask, number)
    assert answers == {number: str(number) for number in range(12)}


async def test_children_of_a_dead_template_live_on_and_are_ended_like_before(
    forks: TemplateSpawner, registry: ProcessRegistry
) -> None:
    code = """
        import os, signal, subprocess, sys
        shell = subprocess.Popen(["sleep", "300"], process_group=0)
        os.write(fd, f"{shell.pid}".encode())
        os.read(fd, 1)
        os._exit(9)
    """
    async with started(forks, script(code)) as first, started(forks, script(code)) as second:
        shells = [await _shell_of(child) for child in (first, second)]
        template = _template(registry)
        os.kill(template.pid, signal.SIGKILL)
        await _await_gone(template)
        assert is_alive(first.identity) is Liveness.ALIVE
        await first.stream.send_all(b"x")
        assert await first.wait() == UNKNOWN_EXIT
        assert await second.stop() == UNKNOWN_EXIT
        for member in (*shells, first.identity, second.identity):
            assert is_alive(member) is Liveness.GONE


async def test_dead_template_costs_no_spawn_and_is_replaced(
    forks: TemplateSpawner, registry: ProcessRegistry, log_path: Path
) -> None:
    first = _template(registry)
    os.kill(first.pid, signal.SIGKILL)
    await _await_gone(first)
    async with started(forks, shell("sleep 300")) as child:
        second = _template(registry)
        assert second != first
        assert parent_of(child.pid) == second.pid
    (failed,) = _log(log_path, "template_failed")
    assert failed["error"] == "it has ended"


async def test_template_that_dies_instead_of_answering_costs_no_spawn(
    make_forks: MakeForks, log_path: Path
) -> None:
    """Which of the two it was, the template's end or the request, must not matter."""
    forks = make_forks(_template_that_says('{"modules":["scripted_entry"],"outcome":"ready"}'))
    async with started(forks, script("")) as child:
        assert parent_of(child.pid) == os.getpid()
        assert await child.wait() == ExitStatus(0, None)
    assert len(_log(log_path, "template_failed")) == 1
    await forks.aclose()


@pytest.mark.parametrize(
    "start",
    [
        _template_that_says("no frame"),
        _template_that_says('{"outcome":"forked","pid":4711}'),
        _template_that_says(""),
        lambda: start_program(("/no/such/python",), cwd="/", env={}, marker=MARKER),
    ],
    ids=["nonsense", "wrong answer", "nothing", "no program"],
)
async def test_without_a_template_children_start_by_exec_and_the_log_says_why(
    make_forks: MakeForks, log_path: Path, registry: ProcessRegistry, start: Callable[[], Program]
) -> None:
    forks = make_forks(start)
    async with started(forks, script("")) as child:
        assert parent_of(child.pid) == os.getpid()
    (failed,) = _log(log_path, "template_failed")
    assert failed["level"] == "warning"
    assert failed["error"]
    assert registry.children() == ()
    await forks.aclose()


async def test_template_that_hangs_is_ended_and_the_spawn_goes_on_by_exec(
    forks: TemplateSpawner, registry: ProcessRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_link, "ANSWER_S", 0.05)
    template = _template(registry)
    os.kill(template.pid, signal.SIGSTOP)
    async with started(forks, shell("sleep 300")) as child:
        assert parent_of(child.pid) == os.getpid()
        assert is_alive(template) is Liveness.GONE


async def test_fork_that_was_asked_for_is_waited_for_when_it_is_cancelled(
    forks: TemplateSpawner, registry: ProcessRegistry
) -> None:
    template = _template(registry).pid
    os.kill(template, signal.SIGSTOP)
    spawned: list[Child] = []

    async def spawn() -> None:
        spawned.append(await forks.spawn(shell("sleep 300")))

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spawn)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            os.kill(template, signal.SIGCONT)
    (child,) = spawned
    assert parent_of(child.pid) == template
    await child.stop(grace_s=0)


async def test_child_that_no_descriptor_is_left_for_is_ended_again(
    forks: TemplateSpawner, registry: ProcessRegistry
) -> None:
    template = _template(registry).pid
    # It starts nothing: it is ended alone, before a child of ours is told what to do.
    waiting = script("import signal; signal.pause()")
    with _descriptors_left(4), pytest.raises(SpawnFailed, match="no descriptor"):
        await forks.spawn(waiting)
    async with started(forks, shell("sleep 300")) as child:
        assert parent_of(child.pid) == template


async def test_template_is_registered_before_it_forks_and_until_it_has_ended(
    make_forks: MakeForks, registry: ProcessRegistry, tmp_path: Path
) -> None:
    forks = make_forks()
    await forks.begin()
    (entry,) = read_registry(tmp_path / "host.children.json")
    await warm(forks)
    assert marker_of(entry.identity.pid) == [f"PI_WORKFLOWS_CHILD={entry.marker}"]
    await forks.aclose()
    assert registry.children() == ()
    assert is_alive(entry.identity) is Liveness.GONE
    async with started(forks, script("")) as child:
        assert parent_of(child.pid) == os.getpid()


async def test_template_ends_when_its_server_does() -> None:
    program = scripted_template()
    assert program.socket.recv(1_000).startswith(b'{"modules"')
    program.socket.close()
    assert program.process.wait(120) == 0
    os.close(program.output)


def test_template_that_nobody_took_over_is_ended() -> None:
    program = scripted_template()
    program.abandon()
    program.abandon()
    assert program.process.returncode == -signal.SIGKILL


def test_real_template_runs_runners_and_resolvers() -> None:
    program = start_template()
    first = program.socket.recv(1_000)
    assert json.loads(first)["modules"] == ["pi_workflows.runner", "pi_workflows.runner.resolver"]
    program.abandon()


def test_environment_can_ask_for_starts_by_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(START_VARIABLE, raising=False)
    assert has_template() is (sys.platform == "linux")
    monkeypatch.setenv(START_VARIABLE, "exec")
    assert not has_template()


@contextmanager
def _descriptors_left(count: int) -> Iterator[None]:
    """Leave so many numbers for descriptors of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [number for number in range(soft) if not _is_open(number)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[count - 1] + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _arguments(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def _descriptors_of(pid: int) -> set[str]:
    return {entry.name for entry in Path(f"/proc/{pid}/fd").iterdir()}


async def _await_ended(pid: int) -> None:
    with trio.fail_after(120), contextlib.suppress(OSError):
        while parent_of(pid):
            await trio.lowlevel.checkpoint()


async def _await_gone(identity: ProcessIdentity) -> None:
    with trio.fail_after(120):
        while identity_of(identity.pid) == identity:
            await trio.lowlevel.checkpoint()
