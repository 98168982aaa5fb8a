"""What a starting server does to the state its dead predecessor left, in the order of C §1."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.states import OwnerType
from store import active_time, leases, workers
from store.authority import Permit
from store.run_parking import recover_run
from store.runs import RunIdRow
from store.transaction import Reading, Transaction

SELECT_UNDER_WAY: Final = """
    SELECT run_id FROM run_queue WHERE status IN ('starting', 'running') ORDER BY run_id
"""

ROW_STATEMENTS: Final = {"SELECT_UNDER_WAY": RunIdRow}


@dataclass(frozen=True, slots=True)
class Recovered:
    """What there was to do, for the log."""

    leases: int
    workers: int
    intervals: int


def close_predecessor(tx: Transaction, permit: Permit) -> Recovered:
    """Free the leases of every earlier server, close its children's rows and open clocks."""
    return Recovered(
        leases.expire_all(tx, permit, OwnerType.HOST),
        workers.orphan_all(tx),
        active_time.stop_all(tx),
    )


def under_way(reading: Reading) -> list[str]:
    """Return the runs that a server had in its hands, by id."""
    return [row.run_id for row in reading.many(RunIdRow, SELECT_UNDER_WAY, {})]


__all__ = ["Recovered", "close_predecessor", "recover_run", "under_way"]
