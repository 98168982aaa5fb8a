"""Keeps test harnesses away from the state directory that a person's own runs live in."""

import os
import pwd
from pathlib import Path
from typing import final

from pi_workflows.protocol.paths import StatePaths


@final
class LiveStateRefused(Exception):
    """A harness was pointed at the user's own state directory."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(
            f"{state_dir} holds your own runs, so nothing that stops or kills a server on purpose "
            "is started on it. Set HOME to a temporary folder and start it again"
        )


def account_home() -> Path | None:
    """Return the home that the user database names; None for a user whom it does not know."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None


def refuse_live_state(state_dir: Path) -> None:
    """Raise if `state_dir` is the one below the home that the system's user database names.

    HOME plays no part, for a harness sets it and a shell may have lost it. Links are followed, and
    nothing is touched. A user whom that database does not know has no such directory.

    Raises:
        LiveStateRefused: It is.
    """
    home = account_home()
    if home is None:
        return
    live = StatePaths(home).state_dir
    if state_dir.resolve() == live.resolve() or _are_one(state_dir, live):
        raise LiveStateRefused(state_dir)


def _are_one(one: Path, other: Path) -> bool:
    """Say whether both are there and are the same directory, under whatever names."""
    try:
        return one.samefile(other)
    except OSError:
        return False
