"""Keeps the harness away from the state a person lives with."""

from pathlib import Path

from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.outcome import ScenarioRefused
from runtime.live_state import account_home


def refuse_live_state(path: Path) -> None:
    """Refuse a path inside the state directory of this user, or around it.

    Both homes count: the one of the environment, and the one of the account, which no variable
    moves.

    Raises:
        ScenarioRefused: says so.
    """
    place = path.resolve()
    for home in {Path.home(), account_home() or Path.home()}:
        live = StatePaths(home).state_dir.resolve()
        if place.is_relative_to(live) or live.is_relative_to(place):
            raise ScenarioRefused(
                f"{path} is the live state directory or holds it; chaos kills what works there."
                " Give it a folder of its own."
            )
