"""Behaviour of private directories and files."""

import os
import stat
from pathlib import Path

import pytest

from runtime.errors import NotPrivate
from runtime.private_files import ensure_private_directory, open_private, replace_file


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_directories_are_made_private(tmp_path: Path) -> None:
    """Case: C7."""
    path = tmp_path / "agent" / "workflows" / "host"
    ensure_private_directory(path)
    ensure_private_directory(path)
    assert {_mode(path), _mode(path.parent), _mode(path.parent.parent)} == {0o700}


def test_directory_open_to_others_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "host"
    path.mkdir()
    path.chmod(0o755)
    with pytest.raises(NotPrivate, match="0755") as caught:
        ensure_private_directory(path)
    assert caught.value.hint == f"Run: chmod 700 {path}"
    assert _mode(path) == 0o755


def test_symbolic_link_and_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(NotPrivate):
            ensure_private_directory(tmp_path / name)


def test_private_file_is_never_opened_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(tmp_path / "link", os.O_WRONLY)


def test_replaced_file_is_private_and_leaves_no_trace_of_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert _mode(path) == 0o600
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "directory", b"x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["directory", "file"]
