"""Who ended whom, by what a simulation has noted: a silent server is ended, and nobody else."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from actors.lock_standing import PROBE_S
from pi_workflows.chaos.invariants import InvariantBroken

_SERVER: Final = "server-"

Entry = tuple[float, str, str, str]


@dataclass(slots=True)
class _Seen:
    """What is known so far.

    Attributes:
        silent_until: by process, the instant at which it went on; infinite while it stands still.
        killed: of whom nobody has said yet that he has displaced them.
    """

    silent_until: dict[str, float] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)


def require_displaced(entries: Iterable[Entry]) -> None:
    """Check that each server that was killed stood still, and is named by who did it.

    Only for simulations in which nothing but a server kills servers.

    Raises:
        InvariantBroken: says who was killed, or is said to have been.
    """
    seen = _Seen()
    for at_s, who, what, text in entries:
        if what == "started":
            seen.silent_until.pop(who, None)
        elif what == "signal" and who.startswith(_SERVER):
            _signalled(seen, at_s, who, text)
        elif what == "log" and "server_displaced" in text:
            _named(seen, f"{_SERVER}{json.loads(text)['pid']}")
    if seen.killed:
        raise InvariantBroken(f"nobody says why {seen.killed[0]} was ended", "P3")


def _signalled(seen: _Seen, at_s: float, who: str, signal: str) -> None:
    if signal == "SIGSTOP":
        seen.silent_until[who] = float("inf")
    elif signal == "SIGCONT":
        seen.silent_until[who] = at_s
    elif signal == "SIGKILL":
        # Whoever goes on while he is being asked may be too late.
        if at_s > seen.silent_until.get(who, float("-inf")) + PROBE_S:
            raise InvariantBroken(f"{who} was ended, and did not stand still", "P3")
        seen.killed.append(who)


def _named(seen: _Seen, who: str) -> None:
    if who not in seen.killed:
        raise InvariantBroken(f"{who} is said to be displaced, and was not ended", "P3")
    seen.killed.remove(who)
