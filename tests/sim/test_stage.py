"""Scenarios of a user's own workflow: what may be declared, and what is refused with its line.

A simulation runs under trio's MockClock: its pauses take no time.
"""

import importlib
import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from pi_workflows.authoring.context import Ctx
from pi_workflows.chaos.outside import outside
from pi_workflows.chaos.playing import play
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.chaos.swarm import Swarm
from runtime.chaos.choices import Benign, Replayed
from runtime.chaos.outcome import ScenarioRefused

GREET: Final = """
from pi_workflows import Ctx, Workflow, manual

wf = Workflow("greet", input=str)

@wf.action(effect=manual("mail.send"))
def send(ctx: Ctx[str]) -> str:
    raise RuntimeError("this would reach a real mail server")

workflow = wf.build(start=send)
"""

HASTY: Final = """
import {module}

from pi_workflows import Workflow

wf = Workflow("hasty")

@wf.compute()
def hurry() -> str:
    return str({call})

workflow = wf.build(start=hurry)
"""

LOGGING: Final = """
import logging

from pi_workflows import Workflow

wf = Workflow("logging")

@wf.compute()
def tell() -> int:
    logging.getLogger("greet").info("a record looks at the clock")
    return 1

workflow = wf.build(start=tell)
"""


def greeting(s: Stage) -> str:
    name = s.source("greet", GREET)

    @s.plays(name, "send")
    def send(ctx: Ctx[Any]) -> str:
        outside().apply(ctx.effect.key)
        return f"sent to {ctx.input}"

    return name


@simulation()
def everybody_is_greeted(s: Stage) -> None:
    """Whatever dies, no mail is sent twice."""
    s.run(greeting(s), "Ada", times=2, ends=frozenset({"completed", "ambiguous"}))
    s.faults(kill=3, pause=1, power_cut=1)

    @s.always
    def at_most_one_mail_each(seen: Seen) -> None:
        assert not seen.outside.twice()

    @s.finally_
    def completed_means_sent(seen: Seen) -> None:
        done = [run for run in seen.runs if run.status == "completed"]
        assert len(done) <= len(seen.outside.applied)
        assert all(run.output == "sent to Ada" for run in done)


@pytest.mark.parametrize("seed", range(4))
def test_own_workflow_of_a_user_holds_whatever_dies(seed: int) -> None:
    played = play(everybody_is_greeted, seed, Swarm(seed))
    assert played.error is None
    assert played.checks["at_most_one_mail_each"] > 1
    assert played.checks["completed_means_sent"] == 1


def test_invariant_that_does_not_hold_is_told_with_its_line() -> None:
    @simulation()
    def hopeful(s: Stage) -> None:
        s.run(greeting(s), "Ada")

        @s.always
        def nobody_is_greeted(seen: Seen) -> None:
            assert not seen.outside.applied

    played = play(hopeful, 0, Benign())
    assert str(played.error).startswith("nobody_is_greeted: assert not ")


def test_last_state_is_looked_at_when_everything_has_ended() -> None:
    @simulation()
    def strict(s: Stage) -> None:
        s.run(greeting(s), "Ada")

        @s.finally_
        def shows_what_a_person_sees(seen: Seen) -> None:
            (run,) = seen.runs
            assert (run.workflow, run.status, run.output) == ("greet", "completed", "sent to Ada")
            assert len(seen.executions) == len(seen.outside.applied) == 1
            assert seen.events("run_completed")
            assert next(operation for operation, _ in seen.acknowledged) == "run.start"
            assert seen.now_ms > 0

    played = play(strict, 0, Benign())
    assert played.error is None
    assert played.checks["shows_what_a_person_sees"] == 1


def test_run_that_comes_to_another_end_is_a_finding() -> None:
    @simulation()
    def plain(s: Stage) -> None:
        s.run(s.source("greet", GREET), "Ada")

    played = play(plain, 0, Benign())
    assert "is failed, and not completed" in str(played.error)


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("time", "time.time()"),
        ("time", "time.sleep(1)"),
        ("random", "random.random()"),
        ("uuid", "uuid.uuid4()"),
        ("threading", "threading.Thread(target=print).start()"),
        ("socket", "socket.create_connection(('127.0.0.1', 9))"),
        ("datetime", "datetime.datetime.now()"),
        ("subprocess", "subprocess.run(['true'])"),
    ],
)
def test_node_that_reaches_for_the_outside_is_refused_with_its_line(
    module: str, call: str
) -> None:
    """Even though the product makes any error of user code a failed step."""

    @simulation()
    def hasty(s: Stage) -> None:
        s.run(s.source("hasty", HASTY.format(module=module, call=call)))

    with pytest.raises(ScenarioRefused, match=r"hasty\.workflow\.py:10: .* is not available"):
        play(hasty, 0, Benign())


@pytest.mark.parametrize("reach", ["time.monotonic", "random.random", "uuid.uuid4"])
def test_actor_that_reaches_for_the_outside_is_refused(reach: str) -> None:
    """Whether it catches the refusal or not."""
    module, _, name = reach.partition(".")

    @simulation()
    def hasty(s: Stage) -> None:
        @s.actor()
        async def actor(_: SimulatedWorld) -> None:
            await trio.sleep(1)
            with suppress(Exception):
                getattr(importlib.import_module(module), name)()

    with pytest.raises(ScenarioRefused, match=r"test_stage\.py:\d+: "):
        play(hasty, 0, Benign())


def test_log_of_a_node_may_look_at_the_clock() -> None:
    @simulation()
    def quiet(s: Stage) -> None:
        s.run(s.source("logging", LOGGING))

    assert play(quiet, 0, Benign()).error is None


def test_functions_are_as_before_after_a_simulation() -> None:
    before = (time.monotonic, time.time, random.shuffle, threading.Thread.start)
    play(everybody_is_greeted, 0, Benign())
    assert (time.monotonic, time.time, random.shuffle, threading.Thread.start) == before


def test_workflow_file_beside_the_scenario_is_found(tmp_path: Path) -> None:
    (tmp_path / "greet.workflow.py").write_text(GREET)
    s = Stage(folder=tmp_path)
    assert s.workflow("greet.workflow.py") == "greet"
    assert s.workflows == {"greet": GREET}
    with pytest.raises(ScenarioRefused, match=r"thanks\.workflow\.py cannot be read: No such"):
        s.workflow("thanks.workflow.py")


def test_scenario_in_which_nothing_happens_is_refused() -> None:
    @simulation()
    def idle(s: Stage) -> None:
        s.source("greet", GREET)

    with pytest.raises(ScenarioRefused, match="idle starts no run and declares no actor"):
        play(idle, 0, Benign())


def test_fault_happens_where_its_choice_says_and_nowhere_else() -> None:
    choices = {"kill runner at code started#1": "killed"}
    played = play(everybody_is_greeted, 3, Replayed(choices))
    assert played.error is None
    assert played.choices.unusual == choices
    assert played.fired == {"kill": 1}
    told = [moment for moment in played.timeline.moments() if moment.lane == "faults"]
    assert [moment.what for moment in told] == ["kill"]


def test_budget_is_not_exceeded() -> None:
    """Every place at which a server could die is chosen; three may."""
    choices = {f"kill server at cmd.before_commit#{number}": "killed" for number in range(1, 9)}
    played = play(everybody_is_greeted, 3, Replayed(choices))
    assert played.error is None
    assert played.fired["kill"] == 3
