"""The server's live claims on runs, in memory: who may be asked to let go (README 20).

A control command on a run that this server owns uses the server's own claim. The registry is
comfort: the row decides, and a claim that is stale here is refused there.
"""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.ids import RunId
from runtime.tenure import Tenure
from store.authority import Claim


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run that an owner of this server works on."""

    claim: Claim
    tenure: Tenure


class ClaimRegistry:
    """Claims by run."""

    def __init__(self) -> None:
        self._held: Final[dict[str, HeldRun]] = {}

    def add(self, run_id: RunId, held: HeldRun) -> None:
        """Note a claim that has just been committed."""
        self._held[run_id] = held

    def discard(self, run_id: RunId, held: HeldRun) -> None:
        """Forget the claim, unless a later one has replaced it."""
        if self._held.get(run_id) is held:
            del self._held[run_id]

    def claim_of(self, run_id: str) -> Claim | None:
        """Return the live claim on a run; None when this server holds none."""
        held = self._held.get(run_id)
        return held.claim if held is not None else None

    def end(self, run_id: str, reason: str) -> None:
        """Cancel the owner of a run whose lease a commit has just freed."""
        held = self._held.get(run_id)
        if held is not None:
            held.tenure.released()
            held.tenure.end(reason)

    @property
    def count(self) -> int:
        """How many runs this server owns."""
        return len(self._held)
