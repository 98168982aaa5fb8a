"""The harness never works where somebody lives."""

import os
import pwd
from pathlib import Path

import pytest

from pi_workflows.chaos.live_state import refuse_live_state
from pi_workflows.chaos.procs_engine import ProcsEngine
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.outcome import ScenarioRefused


@pytest.mark.parametrize("inside", [".", "host", "chaos/deep", "..", "../../.."])
@pytest.mark.parametrize("is_account", [True, False])
def test_live_state_directory_is_refused(
    inside: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_account: bool
) -> None:
    """In it and around it, for the home of the environment and for that of the account."""
    monkeypatch.setenv("HOME", str(tmp_path))
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir) if is_account else tmp_path
    place = StatePaths(home).state_dir / inside
    with pytest.raises(ScenarioRefused, match=r"live state directory.*a folder of its own"):
        ProcsEngine(place)


def test_link_to_the_live_state_directory_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    live = StatePaths(tmp_path / "home").state_dir
    live.mkdir(parents=True)
    (tmp_path / "link").symlink_to(live)
    with pytest.raises(ScenarioRefused):
        refuse_live_state(tmp_path / "link" / "chaos")
    refuse_live_state(tmp_path / "elsewhere")
