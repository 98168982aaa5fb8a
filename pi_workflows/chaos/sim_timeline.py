"""The timeline of a simulation: who lived, what was committed, done outside, and failed."""

import json
import re
from collections import deque
from typing import Final, final

import trio

from runtime.chaos.outcome import Moment
from runtime.simulation.trace import Trace
from store.event_log import EventRow, events_after
from store.transaction import Reading

_WIRE: Final = re.compile(r"#\d+:[ab]$")
_SILENT: Final = frozenset({"send", "write"})
_SHORT: Final = 60
_OUTSIDE: Final = "outside"


@final
class Timeline:
    """Collects what was committed and done outside while it happens; the rest is in the trace.

    Attributes:
        last_event: sequence number of the newest event noted.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace: Final = trace
        self._beside: Final[list[tuple[int, Moment]]] = []
        self.last_event = 0

    def note(self, reading: Reading, committer: str, at_s: float) -> None:
        """Note the events that were not there before.

        Args:
            committer: name of the server.
            at_s: virtual seconds.
        """
        for event in events_after(reading, self.last_event):
            self.last_event = event.event_seq
            self._add(_committed_moment(at_s, committer, event))

    def note_outside(self, key: str, times: int) -> None:
        """Note that an effect was carried out now, for the first time or once more."""
        what = "applied" if times == 1 else "applied again"
        self._add(Moment(round(trio.current_time() * 1000), _OUTSIDE, what, key[:_SHORT]))

    def moments(self) -> tuple[Moment, ...]:
        """Return what has happened so far, in order."""
        found: list[Moment] = []
        beside = deque(self._beside)
        for number, entry in enumerate(self._trace.entries):
            while beside and beside[0][0] <= number:
                found.append(beside.popleft()[1])
            moment = _moment(*entry)
            if moment is not None:
                found.append(moment)
        return (*found, *(moment for _, moment in beside))

    def _add(self, moment: Moment) -> None:
        self._beside.append((len(self._trace.entries), moment))


def _committed_moment(at_s: float, committer: str, event: EventRow) -> Moment:
    return Moment(
        round(at_s * 1000),
        committer,
        event.event_type,
        event.resource_id[:_SHORT],
        event.lease_generation,
    )


def _moment(at_s: float, who: str, what: str, text: str) -> Moment | None:
    """Return what a person wants to know of one entry of the trace; None for most of them."""
    at_ms = round(at_s * 1000)
    if who == "database" or what in _SILENT or _WIRE.search(who):
        return None
    if what == "log":
        return Moment(at_ms, who, _logged(text))
    if what == "started":
        return Moment(at_ms, who, "started")
    if who == "clock":
        return Moment(at_ms, who, f"{int(text) / 1000:+g} s")
    return Moment(at_ms, who, what, text[:_SHORT])


def _logged(text: str) -> str:
    """Return the name of a log record; a long record is cut off and no JSON any more."""
    try:
        return str(json.loads(text)["event"])
    except (ValueError, KeyError):
        found = re.search(r'"event": "([^"]+)"', text)
        return found.group(1) if found else "log"
