"""Lost, repeated and late messages between clients, servers and their children."""

from typing import Final, final

from pi_workflows.chaos.fault_book import FaultBook
from runtime.simulation.fates import ARRIVES, LOST, Fate

_DELAYS: Final = {"0.3 s": 0.3, "5 s": 5.0, "40 s": 40.0}
_OUTSIDERS: Final = frozenset({"client", "viewer"})
"""Whose connections can break without anybody's death."""


@final
class WireFaults:
    """Decides what becomes of each thing that is sent; see `runtime.simulation.fates.Fates`."""

    def __init__(self, book: FaultBook) -> None:
        self._book: Final = book
        self._ends: Final[dict[str, tuple[str, str]]] = {}

    def of_sending(self, end: str) -> Fate:
        """Return what becomes of what an end sends now."""
        book = self._book
        if book.is_calm or not (book.may("drop") or book.may("delay")):
            return ARRIVES
        who, way = self._named(end)
        if who in _OUTSIDERS and book.ask("drop", f"drop {way} {who}", ("lost",)):
            book.enter("drop", f"a message {way} {who} is lost, and with it the connection")
            return LOST
        if (late := book.ask("delay", f"delay {way} {who}", tuple(_DELAYS))) is not None:
            book.enter("delay", f"a message {way} {who} is {late} late")
            return Fate(late_s=_DELAYS[late])
        return ARRIVES

    def repeats(self, operation: str) -> bool:
        """Say whether a request that was answered is to be sent once more."""
        if self._book.ask("duplicate", f"duplicate {operation}", ("again",)) is None:
            return False
        self._book.enter("duplicate", f"{operation} is sent again after its answer")
        return True

    def _named(self, end: str) -> tuple[str, str]:
        """Return who is at the other side of the server, and which way this end sends.

        A connection is named by who has opened it, or by the child at its far end.
        """
        found = self._ends.get(end)
        if found is None:
            who = end.partition("#")[0].rstrip("0123456789").rstrip("-")
            sends_out = end.endswith(":a") != (who not in {"client", "viewer", "server"})
            found = self._ends[end] = (who, "from" if sends_out else "to")
        return found
