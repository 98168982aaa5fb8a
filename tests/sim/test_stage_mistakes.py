"""A mistake in a scenario of a workflow is told as one, with its line.

A simulation runs under trio's MockClock: its pauses take no time.
"""

from collections.abc import Callable
from datetime import datetime
from random import random
from time import monotonic

import pytest
import trio

from pi_workflows.chaos.playing import play
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from runtime.chaos.choices import Benign
from runtime.chaos.outcome import ScenarioRefused

PLAIN = """
{imports}
from pi_workflows import Workflow

wf = Workflow("plain")
{before}

@wf.compute()
def work() -> str:
    return "done"

workflow = wf.build(start=work)
"""


def source(imports: str = "", before: str = "") -> str:
    return PLAIN.format(imports=imports, before=before)


def refusal(declare: Callable[[Stage], None]) -> str:
    """Return with which words a scenario is refused."""

    @simulation()
    def wrong(s: Stage) -> None:
        """Has a mistake."""
        declare(s)

    with pytest.raises(ScenarioRefused) as refused:
        play(wrong, 0, Benign())
    return str(refused.value)


def line_of(function: Callable[..., object], further: int = 1) -> str:
    return f"test_stage_mistakes.py:{function.__code__.co_firstlineno + further}: "


def test_a_mistake_of_an_actor_is_no_broken_promise() -> None:
    async def clumsy(world: SimulatedWorld) -> None:
        await trio.sleep(1)
        world.no_such_thing()  # type: ignore[attr-defined]

    def declare(s: Stage) -> None:
        s.actor()(clumsy)

    said = refusal(declare)
    assert line_of(clumsy, 2) in said
    assert "an actor fails by itself: AttributeError" in said


@pytest.mark.parametrize("when", ["always", "finally_"])
def test_a_mistake_of_an_invariant_is_no_broken_promise(when: str) -> None:
    def careless(seen: Seen) -> None:
        seen.rums  # type: ignore[attr-defined]  # noqa: B018 - misspelt

    def declare(s: Stage) -> None:
        s.run(s.source("plain", source()))
        getattr(s, when)(careless)

    said = refusal(declare)
    assert f"{line_of(careless)}the invariant careless fails by itself: AttributeError" in said
    assert "did you mean runs?" in said


@pytest.mark.parametrize("when", ["always", "finally_"])
@pytest.mark.parametrize("name", ["random", "monotonic", "now"])
def test_an_invariant_gets_nothing_from_the_machine(when: str, name: str) -> None:
    def curious(_: Seen) -> None:
        reach = {"random": draw, "monotonic": monotonic, "now": today}
        reach[name]()

    def declare(s: Stage) -> None:
        s.run(s.source("plain", source()))
        getattr(s, when)(curious)

    said = refusal(declare)
    assert "test_stage_mistakes.py:" in said
    assert f".{name} is not available to " in said


def draw() -> object:
    return random()  # noqa: S311 - refused


def today() -> object:
    return datetime.now()  # noqa: DTZ005 - refused


def test_a_workflow_that_sleeps_while_it_is_loaded_is_refused() -> None:
    text = source("from time import sleep", "sleep(3_600)")
    said = refusal(lambda s: s.run(s.source("plain", text)))
    assert "plain.workflow.py:6: time.sleep is not available" in said


def test_what_names_nothing_is_refused_with_what_is_meant() -> None:
    def unknown_workflow(s: Stage) -> None:
        s.source("plain", source())
        s.run("plian")

    def unknown_stand_in(s: Stage) -> None:
        s.run(s.source("plain", source()))
        s.plays("plan", "work")(lambda _: None)

    def unknown_victim(s: Stage) -> None:
        s.run(s.source("plain", source()))
        s.victims = frozenset({"sever"})

    def unknown_end(s: Stage) -> None:
        s.run(s.source("plain", source()), ends=frozenset({"complete"}))

    def unknown_fault(s: Stage) -> None:
        s.run(s.source("plain", source()))
        s.faults(kil=1)  # type: ignore[arg-type]

    def no_workflow(s: Stage) -> None:
        s.run("plain")

    def no_run(s: Stage) -> None:
        s.run(s.source("plain", source()), times=0)

    assert "there is no workflow 'plian'; did you mean plain?" in refusal(unknown_workflow)
    assert "there is no workflow 'plan'; did you mean plain?" in refusal(unknown_stand_in)
    assert "nobody is a 'sever'; did you mean server?" in refusal(unknown_victim)
    said = refusal(unknown_end)
    assert said.startswith(__file__)
    assert line_of(unknown_end) in said
    assert "there is no end of a run 'complete'; did you mean completed?" in said
    assert f"{line_of(unknown_fault, 2)}there is no fault 'kil'; did you" in refusal(unknown_fault)
    assert "there is no workflow 'plain'; declare one with" in refusal(no_workflow)
    assert "times is 0; there is at least one run" in refusal(no_run)
