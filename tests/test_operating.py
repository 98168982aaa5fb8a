"""The page for operators is held against the code: units, exit codes, files."""

import configparser
import plistlib
import re
from pathlib import Path
from typing import Final

from pi_workflows.protocol.errors import ExitCode
from pi_workflows.protocol.paths import StatePaths

PAGE: Final = (Path(__file__).resolve().parent.parent / "docs" / "operating.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def test_systemd_unit_is_the_one_the_server_is_written_for() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(block("ini"))
    service = dict(unit["Service"])
    wanted = {"Type": "notify", "Restart": "on-failure", "KillMode": "mixed", "UMask": "0077"}
    assert wanted.items() <= service.items()
    assert service["ExecStart"].endswith("pi-workflows server run")
    assert int(service["WatchdogSec"]) > 0
    never_again = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert never_again == {ExitCode.USAGE, ExitCode.INCOMPATIBLE_STATE}


def test_launchd_agent_starts_a_server_that_failed_again() -> None:
    agent = plistlib.loads(block("xml").encode())
    assert agent["ProgramArguments"][1:] == ["server", "run"]
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["Umask"] == 0o077


def test_every_exit_code_of_the_server_is_explained() -> None:
    rows = {int(row) for row in re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)}
    assert rows == {int(code) for code in ExitCode}


def test_every_file_of_the_server_is_named() -> None:
    paths = StatePaths(Path("/home/ada"))
    for path in (paths.database, paths.socket, paths.flock, paths.lock, paths.registry):
        assert f"`{path.relative_to(paths.state_dir)}`" in PAGE
