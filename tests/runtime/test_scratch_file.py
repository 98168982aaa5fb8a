"""Private files without a name."""

import os
from pathlib import Path

import pytest

from runtime.scratch_file import SCRATCH_PREFIX, SystemScratchFile, remove_left_scratch


@pytest.fixture(params=["nameless", "unlinked"])
def directory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    if request.param == "unlinked":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return tmp_path


def test_bytes_are_kept_in_order_and_no_name_is_left(directory: Path) -> None:
    file = SystemScratchFile(directory)
    file.append(b"one ")
    file.append(b"two")
    assert file.read(0, 100) == b"one two"
    assert file.read(4, 2) == b"tw"
    assert file.read(7, 10) == b""
    assert list(directory.iterdir()) == []
    file.close()
    file.close()


def test_what_a_death_in_the_act_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / f"{SCRATCH_PREFIX}abc").touch()
    (tmp_path / "host.lock").touch()
    remove_left_scratch(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["host.lock"]
