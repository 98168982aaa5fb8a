"""A server is started on demand, a bounded number of times, and its last words are shown."""

import os
import stat
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pi_workflows.client.channel import check_socket_path
from pi_workflows.client.discovery import (
    StartTiming,
    launch_detached,
    prepare_directories,
    start_server,
)
from pi_workflows.client.errors import StartFailed, Unavailable, VersionsDiffer
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.paths import StatePaths


@dataclass
class Ended:
    """A server that had ended by the time anybody looked."""

    code: int | None

    def poll(self) -> int | None:
        return self.code


@dataclass
class Launches:
    """Pretends to spawn: writes words, ends with a code, and moves a clock of its own."""

    codes: list[int | None]
    words: str = "boom"
    now: float = 0.0
    at: list[float] = field(default_factory=list)

    def __call__(self, paths: StatePaths) -> Ended:
        code = self.codes[len(self.at)]
        self.at.append(self.now)
        with (paths.logs / "server.output").open("a") as output:
            output.write(f"{self.words} {len(self.at)}\n")
        return Ended(code)

    @property
    def timing(self) -> StartTiming:
        return StartTiming(monotonic=lambda: self.now, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def test_at_most_three_servers_are_spawned_and_the_last_ones_words_are_shown(
    paths: StatePaths,
) -> None:
    """Case: C10."""
    launches = Launches([1, 1, 1])
    with pytest.raises(StartFailed) as caught:
        start_server(paths, launch=launches, timing=launches.timing)
    assert len(launches.at) == 3
    assert caught.value.message.endswith("boom 3")
    assert "boom 2" not in caught.value.message
    assert caught.value.exit_code is ExitCode.UNAVAILABLE
    grace = [later - earlier for earlier, later in zip(launches.at, launches.at[1:], strict=False)]
    assert all(seconds >= 0.25 for seconds in grace)
    assert launches.now >= 10


def test_incompatible_state_ends_the_start_at_once_with_the_servers_text(
    paths: StatePaths,
) -> None:
    launches = Launches([5], words="Back up and move state.sqlite")
    with pytest.raises(StartFailed) as caught:
        start_server(paths, launch=launches, timing=launches.timing)
    assert caught.value.message == "Back up and move state.sqlite 1"
    assert caught.value.exit_code is ExitCode.INCOMPATIBLE_STATE
    assert caught.value.code == ErrorCode.STATE_INCOMPATIBLE
    assert launches.now < 1


def test_an_unusable_setting_ends_the_start_at_once_with_the_servers_text(
    paths: StatePaths,
) -> None:
    launches = Launches([2], words="pi-workflows: X must be positive")
    with pytest.raises(StartFailed) as caught:
        start_server(paths, launch=launches, timing=launches.timing)
    assert caught.value.message == "X must be positive 1"
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.code == ErrorCode.USAGE
    assert (len(launches.at), launches.now < 1) == (1, True)


def test_a_server_that_lost_against_another_is_not_spawned_again(paths: StatePaths) -> None:
    launches = Launches([4], words="already running, PID 7")
    with pytest.raises(StartFailed) as caught:
        start_server(paths, launch=launches, timing=launches.timing)
    assert len(launches.at) == 1
    assert caught.value.exit_code is ExitCode.ALREADY_RUNNING
    assert "PID 7" in caught.value.message


def test_a_server_that_becomes_ready_later_is_used(paths: StatePaths) -> None:
    launches = Launches([None])
    with ExitStack() as stack:

        def ready_after_five_polls(seconds: float) -> None:
            launches.now += seconds
            if launches.now > 0.24 and not paths.socket.exists():
                stack.enter_context(ScriptedServer(paths.socket, lambda _: Answer()))

        timing = StartTiming(monotonic=lambda: launches.now, sleep=ready_after_five_polls)
        start_server(paths, launch=launches, timing=timing).close()
    assert len(launches.at) == 1


def test_machine_that_stands_still_during_a_start_does_not_end_it(paths: StatePaths) -> None:
    """As in the middle of the first wait, for an hour."""
    launches = Launches([None])
    with ExitStack() as stack:

        def ready_after_an_hour(seconds: float) -> None:
            launches.now += seconds if launches.now else 3_600
            if launches.now > 3_601 and not paths.socket.exists():
                stack.enter_context(ScriptedServer(paths.socket, lambda _: Answer()))

        timing = StartTiming(monotonic=lambda: launches.now, sleep=ready_after_an_hour)
        start_server(paths, launch=launches, timing=timing).close()
    assert len(launches.at) == 1


def test_a_running_server_is_used_without_spawning(paths: StatePaths) -> None:
    launches = Launches([])
    with ScriptedServer(paths.socket, lambda _: Answer()):
        start_server(paths, launch=launches, timing=launches.timing).close()


def test_another_version_is_reported_without_spawning(paths: StatePaths) -> None:
    launches = Launches([])
    with (
        ScriptedServer(paths.socket, lambda _: Answer(), package_version="7"),
        pytest.raises(VersionsDiffer),
    ):
        start_server(paths, launch=launches, timing=launches.timing)


def test_a_socket_path_of_108_bytes_is_reported_without_spawning(tmp_path: Path) -> None:
    """Case: C8."""
    launches = Launches([])
    room = 108 - len(os.fsencode(StatePaths(tmp_path / "x").socket)) + 1
    paths = StatePaths(tmp_path / ("h" * room))
    assert len(os.fsencode(paths.socket)) == 108
    with pytest.raises(Unavailable) as caught:
        start_server(paths, launch=launches, timing=launches.timing)
    assert caught.value.code == ErrorCode.SOCKET_PATH_TOO_LONG
    assert "108" in caught.value.message
    if sys.platform == "linux":
        check_socket_path(StatePaths(tmp_path / ("h" * (room - 1))).socket)


def test_directories_are_private_and_existing_ones_are_kept(paths: StatePaths) -> None:
    paths.logs.rmdir()
    prepare_directories(paths)
    prepare_directories(paths)
    assert stat.S_IMODE(paths.logs.stat().st_mode) == 0o700
    assert stat.S_IMODE((paths.logs / "server.output").stat().st_mode) == 0o600


def test_a_home_that_is_no_folder_is_one_clear_message(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    with pytest.raises(StartFailed, match="set HOME") as caught:
        prepare_directories(StatePaths(home))
    assert caught.value.code == ErrorCode.STATE_DIRECTORY_UNUSABLE
    assert caught.value.exit_code is ExitCode.UNAVAILABLE


def test_a_spawned_server_has_its_own_session_and_writes_to_the_logs(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_directories(paths)
    fake = paths.home / "python"
    fake.write_text('#!/bin/sh\necho "$@"; echo $$ $(cut -d" " -f6 /proc/$$/stat)\n')
    fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(fake))
    child = launch_detached(paths)
    assert isinstance(child, subprocess.Popen)
    assert child.wait(120) == 0
    arguments, ids = (paths.logs / "server.output").read_text().splitlines()
    assert arguments == "-P -m pi_workflows.server_process 600000"
    pid, session = ids.split()
    assert pid == session == str(child.pid)
