"""How long a runner may say nothing: the server's own bound behind the deadlines that it keeps.

A runner keeps the deadlines of its code itself, from a second thread. Code that holds the
interpreter's lock in one long call, or a process that stands still, keeps that thread from
running too, and then nobody would ever end it. So the server counts along, from afar and
generously: a runner that was silent for longer than its code and all that surrounds it may take
is dead, whatever its process does.
"""

from collections.abc import Iterable
from typing import Final, final

from pi_workflows.protocol.definition import TIMEOUT_DEFAULT_MS, DefinitionSnapshot
from store.proposals import SetDeadline, StartAttempt, Transition

SLACK_S: Final = 120.0
"""Beyond the deadlines: callbacks of 30 s, the grace of code and of commands, large outputs that
are made into JSON, and all of it on a machine that is busy."""


@final
class RunnerPatience:
    """The bound of one runner, as its accepted proposals set it."""

    def __init__(self, definition: DefinitionSnapshot) -> None:
        """Begin before its first try."""
        self._definition: Final = definition
        self._timeout_ms: int | None = TIMEOUT_DEFAULT_MS
        self._look_ms = 0

    @property
    def silence_s(self) -> float:
        """How long it may say nothing now, in seconds; infinite while its code has no deadline."""
        if self._timeout_ms is None:
            return float("inf")
        return (self._timeout_ms + self._look_ms) / 1000 + SLACK_S

    def note(self, transitions: Iterable[Transition]) -> None:
        """Hear what was accepted: a try has begun, or what it is given was named."""
        for transition in transitions:
            match transition:
                case StartAttempt():
                    node = self._definition.nodes[transition.node_id]
                    self._timeout_ms, self._look_ms = node.timeout_ms, node.look_ms
                case SetDeadline():
                    self._timeout_ms = transition.timeout_ms or None
                case _:
                    pass
