"""Scenarios of somebody's own file, explored by the real commands: verdicts, files, interrupts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from types import TracebackType

    from tests.cli.conftest import Invoke, Start

SOURCE: Final = '''
"""Scenarios that end in each of the ways there are."""

import itertools
import os
import sys

from pi_workflows.chaos.scene import Look, Me, Scene, scenario

COUNTER = itertools.count()


def declare(s: Scene, done_max: int) -> None:
    job = s.resource("job")

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.write(claim, "job.done")

    s.faults(clock_jump=(31.0,), kill=1)

    @s.finally_
    def done_in_time(look: Look) -> None:
        done = len(look.events(job, "job.done"))
        assert done <= done_max, f"done {done} times"


@scenario(promises=("P3",))
def holds(s: Scene) -> None:
    """Each of two may do it once."""
    print("this is said by a scenario")
    declare(s, 2)


@scenario(promises=("P3",))
def breaks(s: Scene) -> None:
    """Only one may do it, which a jump of the clock breaks."""
    declare(s, 1)


@scenario()
def differs(s: Scene) -> None:
    """It is not the same when it is repeated."""

    @s.actor()
    async def worker(me: Me) -> None:
        await me.sync(f"place {next(COUNTER)}")

    @s.finally_
    def nothing(look: Look) -> None:
        assert look.acknowledged == []


@scenario()
def large(s: Scene) -> None:
    """There are more orders than anybody waits for."""
    jobs = [s.resource(f"job-{number}") for number in range(4)]

    @s.actor(count=4)
    async def worker(me: Me) -> None:
        for job in jobs:
            claim = await me.claim(job)
            if claim is not None:
                await me.write(claim, "job.done")

    @s.always
    def nothing(look: Look) -> None:
        assert look.sent == []


@scenario()
def dies(s: Scene) -> None:
    """It takes its process with it."""
    sys.stderr.write("last words")
    sys.stderr.flush()
    os._exit(7)


@scenario()
def lonely(s: Scene) -> None:
    """One actor, one order, and a fault that cannot happen."""

    @s.actor()
    async def worker(me: Me) -> None:
        await me.sync("here")

    s.faults(drop=1)

    @s.finally_
    def nothing(look: Look) -> None:
        assert look.sent == []
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    return file


def only_replay_file(folder: Path = Path("chaos-failures")) -> Path:
    [path] = folder.iterdir()
    return path


def test_what_holds_is_exit_code_0_with_the_figures(invoke: Invoke, file: Path) -> None:
    result = invoke("chaos", "run", f"{file}::holds", "--all", "--jobs", "2", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    [figures] = document["scenarios"]
    assert (document["verdict"], figures["complete"]) == ("held", "yes")
    assert figures["explored"] > 50
    assert figures["checks"]["done_in_time"] >= figures["explored"]
    assert figures["faults"]["clock_jump"] > 0
    assert document["failures"] == []
    assert not Path("chaos-failures").exists()


def test_the_figures_are_those_of_one_process_whatever_the_number(
    invoke: Invoke, file: Path
) -> None:
    figures = []
    for jobs in ("1", "3"):
        result = invoke("chaos", "run", f"{file}::holds", "--all", "--jobs", jobs, "--json")
        [each] = json.loads(result.stdout)["scenarios"]
        figures.append({key: each[key] for key in ("explored", "complete", "faults", "pairs")})
    assert figures[0] == figures[1]


def test_what_breaks_is_exit_code_1_and_is_kept_explained_shrunk_and_replayed(
    invoke: Invoke, file: Path
) -> None:
    result = invoke("chaos", "run", f"{file}::breaks", "--all", "--jobs", "2")
    assert result.exit_code == 1, result.stderr
    kept = only_replay_file()
    for part in (
        "✗ breaks (orders) breaks P3",
        "done 2 times",
        "clock +31 s",
        "write → 4  g2",
        f"see it again: pi-workflows chaos replay {kept}",
    ):
        assert part in result.stdout
    assert len(json.loads(kept.read_text())["choices"]) == 1
    replayed = invoke("chaos", "replay", str(kept))
    assert replayed.exit_code == 1
    assert "✗ breaks P3: " in replayed.stdout
    assert "another trace" not in replayed.stdout
    machine = json.loads(invoke("chaos", "replay", str(kept), "--json").stdout)
    assert (machine["verdict"], machine["sameTrace"], machine["unused"]) == ("violated", True, [])
    explained = invoke("chaos", "explain", str(kept))
    assert explained.exit_code == 0
    assert "it still breaks" in explained.stdout
    assert "Only one may do it, which a jump of the clock breaks." in explained.stdout


def test_a_replay_stops_where_it_is_told_to(invoke: Invoke, file: Path) -> None:
    invoke("chaos", "run", f"{file}::breaks", "--all", "--jobs", "1")
    stopped = invoke("chaos", "replay", str(only_replay_file()), "--until", "2")
    assert stopped.exit_code == 0
    assert "stopped after 2 moments" in stopped.stdout
    assert "g2" not in stopped.stdout


def test_the_debugger_opens_where_the_invariant_fails(
    invoke: Invoke, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("chaos", "run", f"{file}::breaks", "--all", "--jobs", "1")
    functions: list[str] = []

    def post_mortem(trace: TracebackType) -> None:
        while trace.tb_next is not None:
            trace = trace.tb_next
        functions.append(trace.tb_frame.f_code.co_name)

    monkeypatch.setattr("pdb.post_mortem", post_mortem)
    replayed = invoke("chaos", "replay", str(only_replay_file()), "--pdb")
    assert replayed.exit_code == 1
    assert functions == ["done_in_time"]


def test_a_replay_of_what_is_mended_is_exit_code_0(invoke: Invoke, file: Path) -> None:
    invoke("chaos", "run", f"{file}::breaks", "--all", "--jobs", "1")
    file.write_text(SOURCE.replace("declare(s, 1)", "declare(s, 2)"))
    kept = only_replay_file()
    before = kept.read_text()
    replayed = invoke("chaos", "replay", str(kept))
    assert (replayed.exit_code, "✓ holds" in replayed.stdout) == (0, True)
    shrunk = invoke("chaos", "shrink", str(kept))
    assert (shrunk.exit_code, kept.read_text()) == (0, before)


def test_a_file_with_more_than_it_needs_is_made_small(invoke: Invoke, file: Path) -> None:
    invoke("chaos", "run", f"{file}::breaks", "--all", "--jobs", "1")
    kept = only_replay_file()
    document = json.loads(kept.read_text())
    document["choices"] |= {"worker-0 at claim#1": "delay", "worker-7 at claim#3": "drop it"}
    large = Path("large.json")
    large.write_text(json.dumps(document))
    result = invoke("chaos", "shrink", str(large), "--output", "small.json", "--json")
    assert result.exit_code == 1, result.stderr
    figures = json.loads(result.stdout)
    assert (figures["before"], figures["after"]) == (3, 1)
    assert figures["minimal"] is True
    assert invoke("chaos", "replay", "small.json").exit_code == 1


def test_other_versions_are_told_before_a_replay(invoke: Invoke, file: Path) -> None:
    invoke("chaos", "run", f"{file}::breaks", "--all", "--jobs", "1")
    kept = only_replay_file()
    kept.write_text(re.sub(r'"sqlite": "[^"]+"', '"sqlite": "3.0.0"', kept.read_text()))
    assert "sqlite is " in invoke("chaos", "replay", str(kept)).stderr


def test_what_is_not_the_same_twice_is_exit_code_2(invoke: Invoke, file: Path) -> None:
    result = invoke("chaos", "run", f"{file}::differs", "--all", "--jobs", "1")
    assert result.exit_code == 2, result.stderr
    assert "✗ differs (orders) is not deterministic" in result.stdout


def test_a_budget_that_ends_too_early_is_exit_code_3(invoke: Invoke, file: Path) -> None:
    result = invoke("chaos", "run", f"{file}::large", "--all", "--budget", "1s", "--jobs", "2")
    assert result.exit_code == 3, result.stderr
    assert "… the budget ended before what is promised" in result.stdout


def test_what_there_was_no_time_for_is_owed(invoke: Invoke, file: Path) -> None:
    names = [f"{file}::{name}" for name in ("large", "holds")]
    ran = invoke("chaos", "run", *names, "--all", "--budget", "0.001s", "--jobs", "1", "--json")
    assert ran.exit_code == 3, ran.stderr
    figures = {each["scenario"]: each for each in json.loads(ran.stdout)["scenarios"]}
    assert figures["holds"]["explored"] == 0
    assert figures["holds"]["verdict"] == "budget ended"


def test_a_range_of_seeds_explores_as_many(invoke: Invoke, file: Path) -> None:
    result = invoke("chaos", "run", f"{file}::large", "--seeds", "5:35", "--jobs", "2", "--json")
    assert result.exit_code == 0, result.stderr
    [figures] = json.loads(result.stdout)["scenarios"]
    assert (figures["explored"], figures["promised"]) == (30, 30)


def test_what_could_not_have_failed_is_named(invoke: Invoke, file: Path) -> None:
    result = invoke("chaos", "run", f"{file}::lonely", "--all", "--jobs", "1")
    assert result.exit_code == 0
    assert "lonely (orders): fault drop never fired" in result.stdout
    assert "lonely (orders): there is one order only" in result.stdout


def test_reports_go_where_they_are_sent(invoke: Invoke, file: Path) -> None:
    ran = invoke(
        *("chaos", "run", f"{file}::breaks", "--all", "--jobs", "1", "--failures", "kept"),
        *("--report", "junit:out/chaos.xml", "--report", "json:chaos.json", "--report", "text"),
    )
    assert ran.exit_code == 1
    root = ET.parse("out/chaos.xml").getroot()  # noqa: S314 - our own text
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert "done 2 times" in str(failure.get("message"))
    document = json.loads(Path("chaos.json").read_text())
    assert document["failures"][0]["replay"].endswith(str(only_replay_file(Path("kept"))))
    assert "✗ breaks (orders)" in ran.stdout


def test_replay_files_that_cannot_be_written_are_one_line(invoke: Invoke, file: Path) -> None:
    Path("taken").write_text("no folder")
    ran = invoke(
        *("chaos", "run", f"{file}::breaks", "--all", "--jobs", "1", "--failures", "taken/x")
    )
    assert ran.exit_code == 2
    assert "taken/x: Not a directory" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_process_that_dies_is_one_line_with_its_last_words_behind_debug(
    invoke: Invoke, file: Path
) -> None:
    plain = invoke("chaos", "run", f"{file}::dies", "--jobs", "2")
    assert plain.exit_code == 1
    assert plain.stderr == (
        f"pi-workflows: a process explored {file}::dies (orders) and ended: with exit code 7\n"
    )
    debug = invoke("chaos", "run", f"{file}::dies", "--jobs", "1", "--debug")
    assert "last words" in debug.stderr


def test_what_was_found_before_a_process_died_is_told(invoke: Invoke, file: Path) -> None:
    ran = invoke("chaos", "run", f"{file}::breaks", f"{file}::dies", "--jobs", "1")
    assert ran.exit_code == 1
    assert "ended by an error: every process has ended; until then:" in ran.stderr
    assert f"see it again: pi-workflows chaos replay {only_replay_file()}" in ran.stderr
    assert ran.stderr.splitlines()[-1] == (
        f"pi-workflows: a process explored {file}::dies (orders) and ended: with exit code 7"
    )


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="children are listed by /proc")
@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_every_process_and_tells_what_there_was(
    start: Start, file: Path, sent: signal.Signals, code: int, word: str
) -> None:
    names = (f"{file}::breaks", f"{file}::large")
    written = ("--report", "json:report.json", "--report", "junit:report.xml")
    process = start("chaos", "run", *names, "--all", "--jobs", "2", *written)
    assert process.stderr is not None
    first = process.stderr.readline()
    assert first.startswith(f"✗ orders {file}::breaks")
    children: list[int] = []
    while len(children) < 2 and process.poll() is None:
        children = children_of(process.pid)
    os.kill(process.pid, sent)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"{word}: every process has ended" in said
    assert "✗ breaks (orders) breaks P3" in said
    assert f"see it again: pi-workflows chaos replay {only_replay_file()}" in said
    assert "Traceback" not in said
    document = json.loads(Path("report.json").read_text())
    assert (document["stoppedBy"], document["exitCode"]) == (sent.name, code)
    verdicts = {each["scenario"]: each["verdict"] for each in document["scenarios"]}
    assert verdicts == {"breaks": "violated", "large": "budget ended"}
    assert document["failures"][0]["promise"] == "P3"
    assert len(ET.parse("report.xml").getroot().findall(".//testcase")) == 2  # noqa: S314
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_a_marked_test_of_somebody_elses_suite_explores(file: Path) -> None:
    (file.parent / "test_mine.py").write_text(
        "import pytest\nfrom mine import breaks, holds\n\n"
        '@pytest.mark.chaos(holds, engine="orders", orders="all")\n'
        "def test_holds() -> None:\n    print('body ran')\n\n"
        '@pytest.mark.chaos(breaks, orders="all")\n'
        "def test_breaks() -> None:\n    raise ValueError\n\n"
        "def test_unmarked() -> None:\n    pass\n"
    )
    process = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "pi_workflows.chaos.pytest_marker"),
            *("-p", "no:cacheprovider", "--strict-markers", "--rootdir", "."),
        ],
        cwd=file.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in process.stdout, process.stdout + process.stderr
    assert "1 failed" in process.stdout
    assert "✗ breaks (orders) breaks P3" in process.stdout
    assert "ValueError" not in process.stdout
    kept = only_replay_file(file.parent / "chaos-failures")
    assert f"pi-workflows chaos replay chaos-failures/{kept.name}" in process.stdout
    assert json.loads(kept.read_text())["scenario"] == "mine.py::breaks"
