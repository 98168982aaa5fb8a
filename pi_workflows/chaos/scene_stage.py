"""What every engine that plays a scene in this process needs of it."""

from functools import partial
from pathlib import Path

from pi_workflows.chaos.scene import Me, Scene
from runtime.chaos.choices import Choices
from runtime.chaos.guard import Guard
from runtime.chaos.orders import Stage
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.own_code import OwnCode
from runtime.chaos.scenario import Scenario, SimulatedTime
from runtime.chaos.subject import SteppedClock


def memory_folder() -> Path | None:
    """Return where files are in memory; None where there is no such place: any folder will do."""
    memory = Path("/dev/shm")  # noqa: S108 - private folders are made inside
    return memory if memory.is_dir() else None


def declared(scenario: Scenario[Scene]) -> Scene:
    """Call a scenario anew and return what it declares.

    Raises:
        ScenarioRefused: its own function fails, or declares what cannot be.
    """
    scene = Scene()
    try:
        scenario.body(scene)
    except ScenarioRefused:
        raise
    except Exception as error:
        raise OwnCode.at(scenario.place).refusal_of_declaring(scenario.name, error) from error
    return scene


def stage_of(scenario: Scenario[Scene], clock: SteppedClock, guard: Guard) -> Stage:
    """Return the stage of a scenario; it is declared anew for each exploration."""
    return Stage(partial(declared, scenario), _handle, clock, guard, scenario.place)


def _handle(name: str, number: int, clock: SimulatedTime, choices: Choices) -> Me:
    return Me(name, number, clock, choices)
