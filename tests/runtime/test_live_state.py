"""No harness is let near the state of the user who runs it, by whatever name it comes."""

import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from pi_workflows.protocol.paths import StatePaths
from runtime.live_state import LiveStateRefused, refuse_live_state
from runtime.sync_points import ArmedSyncPoints, SyncPoint


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of a home that the user database names."""
    home = tmp_path / "user"
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(home)))
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    return StatePaths(home).state_dir


def test_state_of_the_user_is_refused_whether_it_exists_or_not(live: Path) -> None:
    with pytest.raises(LiveStateRefused):
        refuse_live_state(live)
    assert not live.exists()
    live.mkdir(parents=True)
    with pytest.raises(LiveStateRefused, match=r"holds your own runs.*Set HOME to a temporary"):
        refuse_live_state(live)


def test_another_name_of_the_same_directory_is_refused(live: Path, tmp_path: Path) -> None:
    live.mkdir(parents=True)
    (tmp_path / "link").symlink_to(live.parents[2])
    for other in (StatePaths(tmp_path / "link").state_dir, live / ".." / live.name):
        with pytest.raises(LiveStateRefused):
            refuse_live_state(other)


def test_any_other_state_is_let_through(live: Path, tmp_path: Path) -> None:
    live.mkdir(parents=True)
    refuse_live_state(StatePaths(tmp_path).state_dir)
    refuse_live_state(live / "below")


def test_user_whom_nobody_knows_has_no_state_to_keep(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    refuse_live_state(live)


def test_nothing_is_armed_on_the_state_of_the_user(live: Path) -> None:
    with pytest.raises(LiveStateRefused):
        ArmedSyncPoints(0, list(SyncPoint), live)
