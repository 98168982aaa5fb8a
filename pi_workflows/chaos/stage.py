"""What a scenario declares on when its subject is a whole installation in a simulated world.

@simulation()
def everybody_is_greeted_once(s: Stage) -> None:
    greet = s.workflow("greet.workflow.py")
    s.run(greet, {"name": "Ada"}, times=2)
    s.faults(kill=3, power_cut=1, clock_jump=(600, -3600))

    @s.finally_
    def nobody_is_greeted_twice(seen: Seen) -> None:
        assert not seen.outside.twice()

The engine starts the runs and keeps a server alive. First whatever was declared may fail; then all
faults stop, and every run that was acknowledged has to come to its end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import WORKFLOW_SUFFIX
from pi_workflows.chaos.process_faults import VICTIMS
from pi_workflows.chaos.promises import require_promises
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_runner import SpeaksAs, StandIns
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.runner.messages import Call
from runtime.chaos.declaring import require_count, require_known
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.scenario import Plan, Scenario, scenario_of

CAPACITY: Final = 2

ENDS: Final = ("completed", "failed", "timed_out", "cancelled", "ambiguous")
"""What a run may come to."""

COMPLETED: Final = frozenset({"completed"})

StandIn: TypeAlias = Callable[[Ctx[Any]], Any]


@dataclass(frozen=True, slots=True)
class WantedRun:
    """A run that the engine starts.

    Attributes:
        ends: what it may come to when all faults have stopped.
    """

    workflow: str
    run_input: JsonValue
    ends: frozenset[str]


@dataclass(slots=True)
class Stage(Plan[SimulatedWorld, Seen]):
    """What a scenario declares; an actor of it is an async function of the `SimulatedWorld`.

    Attributes:
        folder: where workflow files are looked for.
        workflows: source text by name.
        wanted: the runs that the engine starts, in this order.
        capacity: how many runners a server may have at a time.
        victims: who may be killed or stopped: "runner", "server".
        keeps_server: False: the actors start servers themselves.
        work_s: how long user code takes, given a number drawn from [0, 1); None: up to two
            seconds, mostly much less.
        speaks_as: for whom a runner says that its next message speaks, given who it is; None:
            always for itself.
        stand_ins: functions that play nodes, by workflow and node.
        log_frames: after how many frames a checkpoint is due, and how many may wait for a reader;
            None: as in a real server.
        read_s: how long a child that reads the whole file holds its snapshot.
    """

    folder: Path = field(default_factory=Path)
    workflows: dict[str, str] = field(default_factory=dict)
    wanted: list[WantedRun] = field(default_factory=list)
    capacity: int = CAPACITY
    victims: frozenset[str] = VICTIMS
    keeps_server: bool = True
    work_s: Callable[[Call, float], float] | None = None
    speaks_as: SpeaksAs | None = None
    stand_ins: StandIns = field(default_factory=dict)
    log_frames: tuple[int, int] | None = None
    read_s: float = 0.0

    def workflow(self, file: str | Path) -> str:
        """Have a workflow file; return the name under which its runs are started.

        Args:
            file: relative to the file of the scenario. What it imports is imported for real.

        Raises:
            ScenarioRefused: there is no such file.
        """
        path = self.folder / file
        try:
            source = path.read_text()
        except OSError as error:
            raise ScenarioRefused(
                f"{path} cannot be read: {error.strerror}; name a workflow file beside the"
                " scenario's own."
            ) from None
        return self.source(path.name.removesuffix(WORKFLOW_SUFFIX), source)

    def source(self, name: str, text: str) -> str:
        """Have a workflow whose file holds this text; return its name."""
        self.workflows[name] = text
        return name

    def run(
        self,
        workflow: str,
        run_input: JsonValue = None,
        *,
        times: int = 1,
        ends: frozenset[str] = COMPLETED,
    ) -> None:
        """Have runs started, one after the other.

        Args:
            ends: what they may come to at last; "ambiguous" stands for an effect that only a
                person can decide about.

        Raises:
            ScenarioRefused: no run comes to such an end, or none is started.
        """
        require_known("end of a run", ends, ENDS, "ends")
        require_count("times", times, "run")
        self.wanted += [WantedRun(workflow, run_input, ends)] * times

    def plays(self, workflow: str, node: str) -> Callable[[StandIn], StandIn]:
        """Declare a plain function that plays a node instead of the node's own.

        For what would reach the real world: it lands the effect in
        `pi_workflows.chaos.outside.outside()`.
        """

        def declare(function: StandIn) -> StandIn:
            self.stand_ins[workflow, node] = function
            return function

        return declare


def simulation(
    *, promises: tuple[str, ...] = (), core: bool = False
) -> Callable[[Callable[[Stage], None]], Scenario[Stage]]:
    """Make a scenario of a function that declares on a `Stage`; the engine `sim` explores it.

    Args:
        promises: which of `docs/guarantees.md` it holds the product to.
        core: explore it with more seeds at each change.

    Raises:
        ScenarioRefused: there is no such promise.
    """
    require_promises(promises)

    def declare(body: Callable[[Stage], None]) -> Scenario[Stage]:
        return scenario_of(body, promises=promises, engines=("sim",), core=core)

    return declare
