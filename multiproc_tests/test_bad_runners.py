"""Runners whose code does what it should not: each ends by the rules, nobody else notices."""

import hashlib
import signal
from typing import Final

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import SHORT

WORKERS: Final = "SELECT status, exit_code, signal FROM run_workers WHERE run_id = ?"

HEAD: Final = """
import multiprocessing, os, signal, subprocess, sys, threading, time
from meeting_point import NOTES

"""
TAIL: Final = """

workflow = wf.build(start=bad)
"""

FLOODING: Final = """
LINE = b"x" * 65_535 + b"\\n"

def flood():
    while True:
        os.write(1, LINE)
        os.write(2, LINE)

@wf.compute()
def bad() -> str:
    if NOTES.exists() and "flooded" in NOTES.read_text():
        return "recovered"
    for _ in range(2_000):
        os.write(1, LINE)
    threading.Thread(target=flood, daemon=True).start()
    meet("bad")
    note("flooded")
    os._exit(9)
"""

LEAVING: Final = """
def stay(pipe):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(pipe, b"%d " % os.getpid())
    while True:
        signal.pause()

@wf.compute()
def bad() -> str:
    read, write = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            os.setpgid(0, 0)
        stay(write)
    multiprocessing.get_context("fork").Process(target=stay, args=(write,), daemon=False).start()
    stubborn = "trap '' TERM HUP; echo $$ >&3; while :; do sleep 600; done"
    subprocess.Popen(["/bin/sh", "-c", f"exec 3>&{write}; {stubborn}"], pass_fds=[write])
    said = b""
    while len(said.split()) < 4:
        said += os.read(read, 100)
    return meet("bad", left=[int(pid) for pid in said.split()])
"""

DEAF: Final = """
@wf.compute()
def bad() -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    read, write = os.pipe()
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f"trap '' TERM; echo up >&{write}; sleep 600; sleep 600"],
        pass_fds=[write],
    )
    os.read(read, 1)
    meet("bad", left=[shell.pid])
    while True:
        time.sleep(600)
"""

HUNGRY: Final = """
@wf.compute()
def bad() -> str:
    eaten = []
    meet("bad")
    while True:
        eaten.append(bytearray(16 * 1024 * 1024))
"""

HOARDING: Final = """
KEPT = []

@wf.compute()
def bad() -> str:
    if not NOTES.exists() or "bad ended" not in NOTES.read_text():
        meet("bad")
    size = 16 * 1024 * 1024
    while size > 32:
        try:
            KEPT.append(bytearray(size))
        except MemoryError:
            size //= 2
    return "never"
"""

EXITING: Final = """
@wf.compute()
def bad() -> str:
    os._exit(0)
"""

STOPPING: Final = """
@wf.compute()
def bad() -> str:
    os.killpg(0, signal.SIGTERM)
    while True:
        time.sleep(600)
"""

HOLDING: Final = """
import re

@wf.compute(timeout=1)
def bad() -> str:
    held = NOTES.exists() and "held" in NOTES.read_text()
    word = meet("bad")
    if not held:
        note("held")
        re.match(r"(a+)+$", "a" * 60 + "b")
    return word
"""

BREAKING: Final = """
@wf.compute()
def bad() -> str:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    read, write = os.pipe()
    os.close(read)
    os.write(write, b"nobody")
    return "never"
"""

CLOSING: Final = """
@wf.compute()
def bad() -> str:
    os.closerange(0, 4096)
    return "never"
"""

BLURTING: Final = """
FRAME = b'{"messageId":"m1","operation":"runner.exiting","payload":{"reason":"finished"}}\\\\n'

@wf.compute()
def bad() -> str:
    for descriptor in range(3, 256):
        try:
            os.write(descriptor, FRAME)
        except OSError:
            continue
    return "never"
"""

MIMICKING: Final = """
FRAME = '{"messageId":"m1","outcome":"claimLost","revision":7}'
EVERYWHERE = '''
import os
for descriptor in range(256):
    try:
        os.write(descriptor, b'{"messageId":"m1","outcome":"claimLost"}\\\\n')
    except OSError:
        continue
'''

@wf.compute()
def bad() -> str:
    print(FRAME, flush=True)
    print(FRAME, file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-c", EVERYWHERE], close_fds=False, check=True)
    return meet("bad")
"""

HUGE: Final = """
@wf.compute()
def bad() -> dict:
    meet("bad")
    return {"text": "x" * 26_214_400, "more": ["y" * 26_214_400]}
"""


def bad(text: str) -> str:
    return HEAD + text + TAIL


def assert_unnoticed(home: Home) -> None:
    """Another run of the same server begins, completes and is shown; the state is sound."""
    other = home.run_file(home.write(SHORT, "other"))
    home.assert_completed(other, ["only 1"], "done")


def assert_parked_for_no_progress(home: Home, run_id: str, ends: list[tuple[object, ...]]) -> None:
    """Three runners have died, each recorded as it did; the run waits for a person."""
    view = home.await_view(run_id, lambda view: "reason" in view["display"])
    assert view["display"]["status"] == "queued"
    assert "died 3 times" in view["display"]["reason"]
    assert home.database.rows(WORKERS, run_id) == ends
    parked = "SELECT status || ' ' || error_code FROM run_queue WHERE run_id = ?"
    assert home.database.column(parked, run_id) == ["parked runnerNoProgress"]


def test_runner_that_floods_its_output_costs_a_bounded_tail(home: Home) -> None:
    home.servers.start()
    run_id = home.run(bad(FLOODING))
    flooding = home.meetings.arrive("bad")
    assert_unnoticed(home)
    flooding.go()
    home.assert_completed(run_id, ["bad 1"], "recovered")
    assert home.database.rows(WORKERS, run_id) == [("crashed", 9, None), ("exited", 0, None)]
    kept = """
        SELECT b.byte_length FROM run_workers AS w
          JOIN blobs AS b ON b.blob_hash = w.diagnostic_hash WHERE w.run_id = ?
    """
    (length,) = home.database.column(kept, run_id)
    assert 0 < length <= 65_536
    assert home.paths.database.stat().st_size < 4_000_000


def test_processes_that_a_node_leaves_behind_end_with_its_runner(home: Home) -> None:
    """Forked, of another group, of `multiprocessing`, a shell; all deaf to SIGTERM.

    Case: C38.
    """
    home.servers.start()
    run_id = home.run(bad(LEAVING))
    leaving = home.meetings.arrive("bad")
    left = [home.watch(pid) for pid in leaving.facts["left"]]
    assert len(left) == 4
    assert_unnoticed(home)
    assert all(process.is_alive for process in left)
    leaving.go()
    home.assert_completed(run_id, ["bad 1"], "bad")
    for process in left:
        process.await_end()


def test_runner_that_ignores_sigterm_is_killed_with_its_group(home: Home) -> None:
    """Case: C38."""
    home.servers.start()
    run_id = home.run(bad(DEAF))
    deaf = home.meetings.arrive("bad")
    shell = home.watch(deaf.facts["left"][0])
    deaf.go()
    home.command("cancel", run_id)
    assert_unnoticed(home)
    deaf.await_end()
    shell.await_end()
    home.await_logged("runner_ended", times=2)
    (ended,) = home.database.rows(WORKERS, run_id)
    assert ended == ("cancelled", None, str(int(signal.SIGKILL)))
    assert home.show(run_id)["status"] == "cancelled"


def test_runner_that_eats_memory_to_its_limit_fails_its_node(home: Home) -> None:
    home.servers.start(PI_WORKFLOWS_RUNNER_MEMORY_MIB="512")
    run_id = home.run(bad(HUNGRY))
    hungry = home.meetings.arrive("bad")
    hungry.go()
    assert_unnoticed(home)
    home.await_status(run_id, "failed")
    state = home.show(run_id)
    assert state["error"].startswith("MemoryError")
    assert [step["outcome"] for step in state["steps"]] == ["failed"]
    assert home.database.rows(WORKERS, run_id) == [("exited", 0, None)]


def test_runner_without_any_memory_left_ends_and_does_not_hang(home: Home) -> None:
    """How far it comes is chance: its node fails, or it dies, three times at most."""
    home.servers.start(PI_WORKFLOWS_RUNNER_MEMORY_MIB="256")
    run_id = home.run(bad(HOARDING))
    hoarding = home.meetings.arrive("bad")
    hoarding.go()
    assert_unnoticed(home)
    view = home.await_view(
        run_id, lambda view: "reason" in view["display"] or "finishedAt" in view["manifest"]
    )
    assert view["display"]["status"] in {"failed", "completed", "queued"}
    outcomes = {row[0] for row in home.database.rows(WORKERS, run_id)}
    assert outcomes <= {"crashed", "exited"}


DEATHS: Final = {
    "os._exit": (EXITING, ("crashed", 0, None)),
    "SIGTERM to itself": (STOPPING, ("crashed", 0, None)),
    "a closed pipe": (BREAKING, ("crashed", None, str(int(signal.SIGPIPE)))),
    "closed descriptors": (CLOSING, ("crashed", 4, None)),
    "frames of its own": (BLURTING, ("crashed", None, None)),
}


@pytest.mark.parametrize(("text", "end"), DEATHS.values(), ids=DEATHS)
def test_runner_that_ends_itself_has_crashed_whatever_its_exit_code(
    home: Home, text: str, end: tuple[object, ...]
) -> None:
    """Case: C41."""
    home.servers.start()
    run_id = home.run(bad(text))
    assert_unnoticed(home)
    if end[1:] == (None, None):  # It was ended for it: how is a matter of who is first.
        view = home.await_view(run_id, lambda view: "reason" in view["display"])
        assert "died 3 times" in view["display"]["reason"]
        assert [row[0] for row in home.database.rows(WORKERS, run_id)] == ["crashed"] * 3
    else:
        assert_parked_for_no_progress(home, run_id, [end] * 3)
    assert home.show(run_id)["steps"] == []


def test_code_that_never_lets_go_of_the_interpreter_is_ended_from_outside(home: Home) -> None:
    """Its runner cannot keep the deadline; the server counts along, and two minutes more.

    Time passes on the clock that the test shares with its server.
    """
    home.servers.start_armed()
    run_id = home.run(bad(HOLDING))
    holding = home.meetings.arrive("bad")
    holding.go()
    again = home.arrive_later("bad")
    holding.assert_gone()
    again.go()
    home.await_status(run_id, "completed")
    home.await_logged("runner_ended", times=2)
    first, second = home.database.rows(WORKERS, run_id)
    assert (first[0], second) == ("timedOut", ("exited", 0, None))


def test_what_code_and_its_programs_print_is_never_taken_for_frames(home: Home) -> None:
    """A program that is given every descriptor that can be inherited reaches no channel."""
    home.servers.start()
    run_id = home.run(bad(MIMICKING))
    mimicking = home.meetings.arrive("bad")
    assert_unnoticed(home)
    mimicking.go()
    home.assert_completed(run_id, ["bad 1"], "bad")
    assert home.database.rows(WORKERS, run_id) == [("exited", 0, None)]


@pytest.mark.parametrize(
    "raised", ["SystemExit(3)", "KeyboardInterrupt()", "BaseException('odd')", "GeneratorExit()"]
)
def test_whatever_a_node_raises_fails_that_node_only(home: Home, raised: str) -> None:
    """Case: B29."""
    home.servers.start()
    text = f"@wf.compute()\ndef bad() -> str:\n    raise {raised}\n"
    run_id = home.run(bad(text))
    assert_unnoticed(home)
    home.await_status(run_id, "failed")
    state = home.show(run_id)
    assert state["error"].startswith(raised.partition("(")[0])
    assert home.database.rows(WORKERS, run_id) == [("exited", 0, None)]


def test_output_of_50_mib_arrives_whole_and_is_shown(home: Home) -> None:
    """Case: C35, D23."""
    home.servers.start()
    run_id = home.run(bad(HUGE))
    huge = home.meetings.arrive("bad")
    huge.go()
    assert_unnoticed(home)
    home.await_status(run_id, "completed")
    content = b'{"more":["' + b"y" * 26_214_400 + b'"],"text":"' + b"x" * 26_214_400 + b'"}'
    stored = "SELECT hex(final_output_hash) FROM runs WHERE run_id = ?"
    assert home.database.column(stored, run_id) == [hashlib.sha256(content).hexdigest().upper()]
    state = home.show(run_id)
    assert state["finalOutput"] == {"more": ["y" * 26_214_400], "text": "x" * 26_214_400}
    home.assert_verified()
    assert [path.name for path in home.paths.host_dir.iterdir() if "scratch" in path.name] == []
