"""The caller's own `store.py` never meets the server's."""

import os
import subprocess
import sys
from pathlib import Path

from pi_workflows.client.python_path import OWN_ROOT, server_environment


def test_server_gets_the_environment_without_foreign_module_folders(tmp_path: Path) -> None:
    inherited = {
        "LANG": "C",
        "PYTHONHOME": "/x",
        "NOTIFY_SOCKET": "/run/user/1/systemd/notify",
        "WATCHDOG_USEC": "1",
        "WATCHDOG_PID": "1",
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{OWN_ROOT}",
    }
    assert server_environment(inherited) == {"LANG": "C", "PYTHONPATH": OWN_ROOT}
    assert server_environment({"PYTHONPATH": str(tmp_path)}) == {}
    assert server_environment({"LANG": "C"}) == {"LANG": "C"}


def test_server_starts_although_the_callers_store_comes_first(tmp_path: Path) -> None:
    """A store of the caller's would end the import of the server with its own error."""
    for name in ("store", "runtime", "actors"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    program = (
        "import os\n"
        "from pi_workflows.client.python_path import forget_foreign_paths\n"
        "forget_foreign_paths(os.environ)\n"
        "import pi_workflows.server\n"
    )
    path = f"{tmp_path}{os.pathsep}{OWN_ROOT}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
