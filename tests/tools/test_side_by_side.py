"""A suite is shared out among pytest processes: each test once, one verdict, nothing left."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tools import side_by_side
from tools.side_by_side import ROOT, TEMPORARY_BYTES_MAX, left_behind, temporary_folder

BOUND_S: Final = 120

Begin = Callable[..., "subprocess.Popen[str]"]

COUNTING: Final = """
import os
import pytest
from pathlib import Path

RAN = Path(__file__).with_name("ran")

@pytest.fixture(scope="module", autouse=True)
def once():
    with RAN.open("a") as ran:
        ran.write(f"{__name__} fixture {os.getpid()}\\n")

@pytest.mark.parametrize("number", range(5))
def test_counted(number):
    with RAN.open("a") as ran:
        ran.write(f"{__name__} {number} {os.getpid()}\\n")
"""

# Each opens the same pipe, which waits for the other end.
MEETING: Final = """
from pathlib import Path

def test_meets():
    with Path(__file__).with_name("pipe").open("MODE"):
        pass
"""

FAILING: Final = """
def test_right():
    print("nobody wants to know")

def test_wrong():
    assert 1 + 1 == 3, "wrong sum"
"""

LEAVING: Final = """
import subprocess, sys

def test_leaves():
    subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
"""

STUCK: Final = """
import pytest, signal
from pathlib import Path

HERE = Path(__file__)

@pytest.fixture
def tidied():
    yield
    HERE.with_suffix(".tidied").touch()

def test_stuck(tidied):
    signal.signal(signal.SIGINT, HANDLER)
    with HERE.with_name("stuck").open("w") as pipe:
        pipe.write(HERE.stem + " ")
    while True:
        signal.pause()
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder for tests, which is not below this project."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


@pytest.fixture
def begin(suite: Path) -> Iterator[Begin]:
    """Return what starts the program on the suite; it is gone when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", side_by_side.__name__, *arguments, str(suite)],
            cwd=ROOT,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def write(suite: Path, name: str, text: str) -> None:
    (suite / f"test_{name}.py").write_text(text)


def ran(suite: Path) -> list[tuple[str, str, str]]:
    lines = (suite / "ran").read_text().splitlines()
    return [(name, what, pid) for name, what, pid in map(str.split, lines)]


@pytest.mark.parametrize("unit", ["file", "test"])
def test_each_test_runs_once_and_processes_run_at_the_same_time(
    suite: Path, begin: Begin, unit: str
) -> None:
    write(suite, "a", MEETING.replace("MODE", "r"))
    write(suite, "b", MEETING.replace("MODE", "w"))
    os.mkfifo(suite / "pipe")
    for name in ("c", "d", "e"):
        write(suite, name, COUNTING)
    process = begin("--unit", unit)
    printed, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0, printed
    tests = [(name, what) for name, what, _ in ran(suite) if what != "fixture"]
    assert sorted(tests) == [(f"test_{name}", f"{n}") for name in "cde" for n in range(5)]
    for name in "abcde":
        assert f"test_{name}.py ." in printed
    assert "2 processes" in printed


def test_file_is_the_unit_and_its_fixtures_are_made_once(suite: Path, begin: Begin) -> None:
    for name in ("a", "b", "c", "d"):
        write(suite, name, COUNTING)
    process = begin()
    printed, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0, printed
    assert sorted(name for name, what, _ in ran(suite) if what == "fixture") == [
        f"test_{name}" for name in "abcd"
    ]
    assert len({(name, pid) for name, _, pid in ran(suite)}) == 4


def test_failure_is_shown_once_and_everything_else_still_runs(suite: Path, begin: Begin) -> None:
    write(suite, "a", FAILING)
    write(suite, "b", COUNTING)
    process = begin()
    printed, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == 1
    assert printed.count("    def test_wrong():") == 1
    assert "AssertionError: wrong sum" in printed
    assert printed.count("1 failed, ") == 1
    assert "nobody wants to know" not in printed
    assert len(ran(suite)) == 6


def test_suite_that_cannot_be_collected_fails_and_says_why(suite: Path, begin: Begin) -> None:
    write(suite, "a", "import nothing_of_this_name\n")
    process = begin()
    printed, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == 2
    assert "nothing_of_this_name" in printed


def test_suite_without_a_test_fails(begin: Begin) -> None:
    process = begin()
    process.communicate(timeout=BOUND_S)
    assert process.returncode == 5


def test_process_that_a_test_leaves_behind_is_named_and_ended_and_fails_the_run(
    suite: Path, begin: Begin
) -> None:
    write(suite, "a", LEAVING)
    process = begin()
    printed, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == 1
    assert "1 passed" in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("left behind")]
    assert "signal.pause()" in line
    assert not Path("/proc", line.split()[4], "cwd").exists()


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_interrupt_ends_every_process_and_lets_fixtures_tidy_up(
    suite: Path, begin: Begin, sent: signal.Signals, code: int
) -> None:
    process = _both_stuck(suite, begin, "signal.default_int_handler")
    process.send_signal(sent)
    printed, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == code, printed
    assert printed.count("KeyboardInterrupt") >= 2
    assert len(list(suite.glob("*.tidied"))) == 2
    assert left_behind(suite) == {}


def test_second_interrupt_ends_what_does_not_listen(suite: Path, begin: Begin) -> None:
    process = _both_stuck(suite, begin, "lambda *_: HERE.with_name('heard').open('w').close()")
    os.mkfifo(suite / "heard")
    process.send_signal(signal.SIGINT)
    with (suite / "heard").open():
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=BOUND_S)
    assert process.returncode == 130
    assert left_behind(suite) == {}


def test_folder_for_temporary_files_has_a_short_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long and " * 10)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    for memory in (tmp_path / "there is none", tmp_path):
        monkeypatch.setattr(side_by_side, "MEMORY", memory)
        folder = temporary_folder()
        folder.rmdir()
        assert len(os.fsencode(folder.parent)) <= TEMPORARY_BYTES_MAX


def test_folder_is_in_memory_only_if_all_fits_in_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "TEMPORARY_BYTES_MAX", 1_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(side_by_side, "MEMORY", memory)
    for needed, place in ((1, memory), (2**60, tmp_path)):
        monkeypatch.setattr(side_by_side, "MEMORY_BYTES", needed)
        folder = temporary_folder()
        folder.rmdir()
        assert folder.parent == place


def test_number_of_processes_that_makes_no_sense_is_refused(begin: Begin) -> None:
    process = begin("--processes", "0")
    printed, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == 2
    assert "--processes must be at least 1" in printed


def _both_stuck(suite: Path, begin: Begin, handler: str) -> "subprocess.Popen[str]":
    """Start two tests that never end, and return when both are under way."""
    for name in ("a", "b"):
        write(suite, name, STUCK.replace("HANDLER", handler))
    os.mkfifo(suite / "stuck")
    process = begin()
    seen: set[str] = set()
    while seen != {"test_a", "test_b"}:
        seen.update((suite / "stuck").read_text().split())
    return process
