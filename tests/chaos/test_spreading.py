"""Work is spread over processes that die with whoever started them, and whose end is noticed."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from pi_workflows.chaos import abandonment, spreading
from pi_workflows.chaos.spreading import ExploringFailed, Shares, Spreading, TaskRefused
from pi_workflows.chaos.tasks import Exploration, Task
from pi_workflows.protocol.canonical import JsonObject
from runtime.chaos.engine import Wanted

ECHO: Final = """
import json, os, sys
for line in sys.stdin:
    task = json.loads(line)
    match task["ref"]:
        case "dies":
            print("last words", file=sys.stderr)
            os.kill(os.getpid(), 9)
        case "refused":
            print(json.dumps({"refused": "no such thing"}), flush=True)
        case "bug":
            print(json.dumps({"failed": "KeyError: 1", "detail": "a traceback"}), flush=True)
    print(json.dumps({"told": "orders", "count": 3}), flush=True)
    print(json.dumps({"part": task["part"], "pid": os.getpid()}), flush=True)
"""
PROGRAM: Final = (sys.executable, "-c", ECHO)


class Work:
    """Some tasks for two processes, and what came of them."""

    def __init__(self, *refs: str, engines: tuple[str, ...] = ("orders",)) -> None:
        self.answers: list[tuple[str, str, int, int, int]] = []
        self.counts: Counter[str] = Counter()
        self._shares: Final = Shares(2)
        for engine in engines:
            for ref in refs:
                self._shares.add_for_each(
                    lambda number, ref=ref, engine=engine: Exploration(  # type: ignore[misc]
                        ref, engine, Wanted(part=(number, 2))
                    )
                )

    def next_task(self, number: int) -> Task | None:
        return self._shares.next_task(number)

    def answered(self, number: int, task: Task, answer: JsonObject) -> None:
        part, pid = answer["part"], answer["pid"]
        assert isinstance(part, list)
        assert isinstance(pid, int)
        assert isinstance(part[0], int)
        self.answers.append((task.ref, task.engine, number, part[0], pid))

    def told(self, task: Task, unit: str, count: int) -> None:
        self.counts[f"{task.ref} {unit}"] += count

    def tick(self) -> None:
        pass


def run(work: Work) -> None:
    with Spreading(2, work, PROGRAM) as spread:
        spread.run()


def test_every_process_does_its_part_of_everything() -> None:
    work = Work("first", "second")
    run(work)
    assert sorted((ref, part) for ref, _, _, part, _ in work.answers) == [
        ("first", 0),
        ("first", 1),
        ("second", 0),
        ("second", 1),
    ]
    assert all(number == part for _, _, number, part, _ in work.answers)
    assert work.counts == {"first orders": 6, "second orders": 6}


def test_tasks_are_handed_out_as_they_were_added_and_what_came_up_last() -> None:
    shares = Shares(2)

    def named(ref: str) -> Exploration:
        return Exploration(ref, "orders", Wanted())

    shares.add_whole(lambda: named("whole"))
    shares.add_for_each(lambda number: named(f"part {number}"))
    shares.add_later(lambda: named("later"))
    shares.add_whole(lambda: None)
    shares.add_whole(lambda: named("second"))
    handed_out = [shares.next_task(number) for number in (1, 1, 0, 1, 1, 0, 1)]
    refs = [None if task is None else task.ref for task in handed_out]
    assert refs == ["whole", "part 1", "part 0", "second", "later", None, None]


def test_a_process_explores_with_one_engine_only() -> None:
    work = Work("first", "second", engines=("orders", "sim"))
    run(work)
    engines_of: dict[int, set[str]] = {}
    for _, engine, _, _, pid in work.answers:
        engines_of.setdefault(pid, set()).add(engine)
    assert len(engines_of) == 4
    assert all(len(engines) == 1 for engines in engines_of.values())


def test_a_process_that_dies_ends_everything_with_its_last_words() -> None:
    with pytest.raises(ExploringFailed) as failed:
        run(Work("first", "dies", "second"))
    assert str(failed.value) == "a process explored dies (orders) and ended: by SIGKILL"
    assert failed.value.detail == "last words"


def test_a_refusal_and_a_bug_name_the_scenario() -> None:
    with pytest.raises(TaskRefused, match=r"^refused \(orders\): no such thing$"):
        run(Work("refused"))
    with pytest.raises(ExploringFailed, match=r"^bug \(orders\) could not be explored: KeyError"):
        run(Work("bug"))


def started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        spreading.PROGRAM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def give(process: subprocess.Popen[bytes], ref: str) -> None:
    assert process.stdin is not None
    task = Exploration(ref, "orders", Wanted())
    process.stdin.write(json.dumps(task.to_json()).encode() + b"\n")
    process.stdin.flush()


def test_a_process_ends_with_whoever_started_it_even_while_it_works(tmp_path: Path) -> None:
    file = tmp_path / "endless.py"
    file.write_text("import sys\nprint('busy', file=sys.stderr)\nwhile True:\n    pass\n")
    for refs in ([], [f"{file}::any"]):
        with started() as process:
            for ref in refs:
                give(process, ref)
                assert process.stderr is not None
                assert process.stderr.readline() == b"busy\n"
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == abandonment.ABANDONED


def test_what_a_scenario_prints_does_not_get_between_the_answers(tmp_path: Path) -> None:
    file = tmp_path / "loud.py"
    file.write_text("import os\nprint('hello')\nos.write(1, b'there')\n")
    with started() as process:
        give(process, f"{file}::any")
        assert process.stdout is not None
        answer = json.loads(process.stdout.readline())
        assert "declares no scenario" in answer["refused"]
        process.kill()


def test_there_is_at_least_one_core() -> None:
    assert spreading.cores() >= 1
