"""What only a harness may do to a server: no variable does it, and not on the user's own state."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from multiproc_tests.harness import armed_server, dying_server
from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S
from multiproc_tests.harness.servers import ROOT
from multiproc_tests.harness.workflows import NOTING
from runtime.sync_points import SyncPoint

POINTS: Final = ",".join(SyncPoint)
SUSPICIOUS: Final = (
    *("SYNC_POINT", "SYNC_POINTS", "ARMED", "ARMED_SYNC_POINTS", "CONTROL", "CLOCK", "DIE_AT"),
    *("HARNESS", "CHAOS", "CHAOS_SEED", "FAULTS", "FAILPOINTS", "KILL_AT", "TEST", "DEBUG"),
)
"""What a reader of the harness might think that it listens to."""

# The user database is replaced, so that the state at stake is nobody's.
ON_LIVE_STATE: Final = """
import os, pwd, runpy, sys
from types import SimpleNamespace
pwd.getpwuid = lambda _: SimpleNamespace(pw_dir=os.environ["HOME"])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_no_variable_of_the_environment_stops_or_kills_a_server(home: Home) -> None:
    """Each point is named in each variable, once with the product's prefix; a run goes through."""
    prefixed = [f"{prefix}{name}" for name in SUSPICIOUS for prefix in ("", "PI_WORKFLOWS_")]
    values = dict.fromkeys(prefixed, POINTS) | dict.fromkeys(SyncPoint, "1")
    server = home.servers.start(**values)
    run_id = home.run(NOTING)
    home.await_status(run_id, "completed")
    assert home.notes() == ["only"]
    assert server.is_alive


@pytest.mark.parametrize("program", [armed_server, dying_server])
def test_armed_server_is_refused_on_the_users_own_state(tmp_path: Path, program: object) -> None:
    path = str(getattr(program, "__file__"))  # noqa: B009 - modules have it, objects may not
    arguments = ["0", "0", SyncPoint.START_LOCK_HELD] if program is armed_server else ["1"]
    refused = subprocess.run(
        [sys.executable, "-P", "-c", ON_LIVE_STATE, path, *arguments],
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"pi-workflows: {tmp_path}/.pi/agent/workflows holds your")
    assert "Set HOME to a temporary folder" in refused.stderr
    assert list(tmp_path.iterdir()) == []
