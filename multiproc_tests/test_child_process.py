"""A server that dies by SIGKILL leaves children; its successor ends exactly those."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import trio

from multiproc_tests.harness.processes import BOUND_S
from runtime.identity import Liveness, ProcessIdentity, identity_of, is_alive, wait_gone
from runtime.processes import SystemProcessTable
from runtime.registry import ProcessRegistry, read_registry

SERVER = textwrap.dedent("""
    import sys, trio
    from pathlib import Path
    from runtime.child_environment import child_environment
    from runtime.process import ChildSpec
    from runtime.registry import ProcessRegistry
    from runtime.world import production_world

    async def main():
        world = production_world()
        registry = ProcessRegistry(Path(sys.argv[1]), world.processes)
        for number in range(3):
            spec = ChildSpec(
                argv=(sys.executable, "-P", "-c", sys.argv[2], "{fd}"),
                cwd="/", env=child_environment(), marker=f"child-{number}",
            )
            child = await world.spawner.spawn(spec)
            registry.add(child.identity, spec.marker)
            shell = (await child.stream.receive_some(20)).decode()
            print(child.pid, shell, flush=True)
        await trio.sleep_forever()

    trio.run(main)
""")

DEAF_CHILD = textwrap.dedent("""
    import os, signal, subprocess, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    shell = subprocess.Popen(["/bin/sh", "-c", "sleep 300; true"], process_group=0)
    os.write(int(sys.argv[1]), str(shell.pid).encode())
    signal.pause()
""")


def test_successor_ends_the_children_of_a_killed_server_and_their_shells(tmp_path: Path) -> None:
    """Case: C9."""
    path = tmp_path / "host.children.json"
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path), DEAF_CHILD], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline().split() for _ in range(3)]
        left = [_identity(int(pid)) for line in lines for pid in line]
        server.kill()
        assert server.wait() == -signal.SIGKILL
    assert {is_alive(identity) for identity in left} == {Liveness.ALIVE}
    assert len(read_registry(path)) == 3
    trio.run(_take_over, path, left)


async def _take_over(path: Path, left: list[ProcessIdentity]) -> None:
    with trio.fail_after(BOUND_S):
        found = await ProcessRegistry(path, SystemProcessTable()).end_registered()
        assert [child.identity for child in found.ended] == left[::2]
        for identity in left:
            await wait_gone(identity)
    assert {is_alive(identity) for identity in left} == {Liveness.GONE}
    assert read_registry(path) == ()


def _identity(pid: int) -> ProcessIdentity:
    identity = identity_of(pid)
    assert identity is not None
    return identity
