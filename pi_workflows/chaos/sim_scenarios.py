"""The shipped scenarios of the whole system, and one exploration of them that raises."""

from pi_workflows.chaos.playing import Played, play
from pi_workflows.chaos.registry import SCENARIOS
from pi_workflows.chaos.stage import Stage
from pi_workflows.chaos.swarm import Swarm
from runtime.chaos.choices import Source
from runtime.chaos.scenario import Scenario


def whole_system() -> dict[str, Scenario[Stage]]:
    """Return every shipped scenario that the engine `sim` explores, by name."""
    return {name: scenario for name, scenario in SCENARIOS.items() if scenario.engines[0] == "sim"}


def hold(name: str, seed: int, source: Source | None = None) -> Played:
    """Explore a shipped scenario once; an error it meets leaves as itself.

    Args:
        source: decides which faults happen; None draws them by the seed.
    """
    played = play(SCENARIOS[name], seed, source or Swarm(seed))
    if played.error is not None:
        raise played.error
    return played
