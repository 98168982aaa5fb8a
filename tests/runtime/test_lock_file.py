"""Behaviour of the information beside the server lock."""

import json
import stat
from pathlib import Path

import pytest

from runtime.errors import ForeignFile
from runtime.identity import ProcessIdentity
from runtime.lock_file import LockHolder, read_lock_file, remove_lock_file, write_lock_file

HOLDER = LockHolder(ProcessIdentity(4711, "linux-proc-start:b:1"), "server-1")
OTHER = LockHolder(ProcessIdentity(4711, "linux-proc-start:b:2"), "server-2")


def test_holder_is_written_privately_and_read_back(tmp_path: Path) -> None:
    """Case: C7."""
    path = tmp_path / "host.lock.json"
    assert read_lock_file(path) is None
    write_lock_file(path, OTHER)
    write_lock_file(path, HOLDER)
    assert read_lock_file(path) == HOLDER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        "schema": "pi-workflows.server-lock.v1",
        "pid": 4711,
        "startIdentity": "linux-proc-start:b:1",
        "serverId": "server-1",
    }


def test_only_its_own_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "host.lock.json"
    assert not remove_lock_file(path, HOLDER)
    write_lock_file(path, OTHER)
    assert not remove_lock_file(path, HOLDER)
    assert read_lock_file(path) == OTHER
    assert remove_lock_file(path, OTHER)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b'{"pid":', b"[]", b'{"schema":"x","pid":5}'])
def test_torn_or_foreign_file_is_a_fault_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "host.lock.json"
    path.write_bytes(content)
    with pytest.raises(ForeignFile):
        read_lock_file(path)
    assert not remove_lock_file(path, HOLDER)
    assert path.read_bytes() == content
