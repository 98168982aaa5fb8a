"""Behaviour of a start by exec that fails."""

import os
from pathlib import Path

import pytest
import trio

from runtime import process_table
from runtime.errors import SpawnFailed
from runtime.exec_spawner import ExecSpawner
from runtime.identity import identity_of
from runtime.process import ChildSpec
from tests.runtime.children.conftest import MARKER, shell


@pytest.mark.parametrize(
    ("program", "cwd", "reason"),
    [
        ("/no/such/program", "/", "/no/such/program"),
        ("/bin/true", "/no/such/folder", "/no/such/folder"),
        ("/bin/tr\0ue", "/", "null byte"),
    ],
)
async def test_child_that_cannot_be_started_is_a_fault_and_leaves_nothing(
    program: str, cwd: str, reason: str
) -> None:
    before = _descriptors()
    spec = ChildSpec(argv=(program,), cwd=cwd, env={}, marker=MARKER)
    with pytest.raises(SpawnFailed, match=reason):
        await ExecSpawner().spawn(spec)
    assert _descriptors() == before


async def test_child_that_cannot_be_watched_is_ended_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = _descriptors()
    seen: list[int] = []

    def fail(pid: int) -> int:
        seen.append(pid)
        while len(process_table.session_members(pid)) < 2:
            pass
        raise OSError("too many open files")

    monkeypatch.setattr(os, "pidfd_open", fail)
    with pytest.raises(SpawnFailed, match="too many open files"):
        await ExecSpawner().spawn(shell("sleep 300; true"))
    assert identity_of(seen[0]) is None
    with trio.fail_after(120):
        while process_table.session_members(seen[0]):
            await trio.lowlevel.checkpoint()
    assert _descriptors() == before


def _descriptors() -> set[str]:
    return {entry.name for entry in Path("/dev/fd").iterdir()}
