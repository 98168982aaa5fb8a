"""The server's live claims on runs, in memory: who may be asked to let go (README 20).

A control command on a run that this server owns uses the server's own claim. A claim is entered by
the very command that takes it, so that a cancel in the same batch already finds it. The registry
is comfort: the row decides, and a claim that is stale here is refused there.
"""

from typing import Final

from pi_workflows.protocol.ids import RunId
from runtime.tenure import Tenure
from store import leases
from store.authority import Claim
from store.errors import ClaimLost
from store.transaction import Reading


class HeldRun:
    """A run that an owner of this server has claimed.

    Attributes:
        claim: as committed, or about to be.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim: Final = claim
        self._tenure: Tenure | None = None
        self._ended: str | None = None

    def held_by(self, tenure: Tenure) -> None:
        """Name the tenure that holds the claim; it ends at once if `end` came first."""
        self._tenure = tenure
        if self._ended is not None:
            self._end(tenure, self._ended)

    def end(self, reason: str) -> None:
        """Cancel the owner, for a commit has just freed its lease."""
        self._ended = reason
        if self._tenure is not None:
            self._end(self._tenure, reason)

    def lapse(self) -> None:
        """Cancel the owner, for its lease has expired; it hands the run back."""
        if self._tenure is not None:
            self._tenure.end(ClaimLost.EXPIRED)

    @staticmethod
    def _end(tenure: Tenure, reason: str) -> None:
        tenure.released()
        tenure.end(reason)


class ClaimRegistry:
    """Claims by run."""

    def __init__(self) -> None:
        self._held: Final[dict[str, HeldRun]] = {}

    def enter(self, run_id: RunId, claim: Claim) -> HeldRun:
        """Note a claim that the current transaction takes."""
        held = HeldRun(claim)
        self._held[run_id] = held
        return held

    def discard(self, run_id: RunId, held: HeldRun) -> None:
        """Forget the claim, unless a later one has replaced it."""
        if self._held.get(run_id) is held:
            del self._held[run_id]

    def claim_of(self, run_id: str) -> Claim | None:
        """Return the live claim on a run; None when this server holds none."""
        held = self._held.get(run_id)
        return held.claim if held is not None else None

    def held(self, run_id: str) -> HeldRun | None:
        """Return the run as this server has it in hand; None when it has not."""
        return self._held.get(run_id)

    def end(self, run_id: str, reason: str) -> None:
        """Cancel the owner of a run whose lease a commit has just freed."""
        held = self._held.get(run_id)
        if held is not None:
            held.end(reason)

    def drop_lapsed(self, reading: Reading) -> list[str]:
        """Cancel the owners whose leases have expired by `reading.now`; return their runs.

        An expired lease is never renewed: whoever claims the run next gets a new generation. A
        claim whose commit is under way is not in the rows yet and is left alone.
        """
        dropped = []
        for run_id, held in tuple(self._held.items()):
            if leases.loss(reading, held.claim) is ClaimLost.EXPIRED:
                held.lapse()
                dropped.append(run_id)
        return dropped

    @property
    def count(self) -> int:
        """How many runs this server owns."""
        return len(self._held)
