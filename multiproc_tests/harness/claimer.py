"""A program that claims runs on the test's word: `claimer.py DATABASE OWNER`.

For each line on standard input, which names a run, it prints `won` or why it was refused.
"""

import secrets
import sys
import uuid
from pathlib import Path

from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.states import ActorType, OwnerType
from runtime.clock import SystemClock
from store.authority import Permit
from store.batch import Batch, run_alone
from store.errors import Rejected
from store.leases import Owner
from store.opening import MAINTENANCE_BUSY_MS, open_writer
from store.resources import Actor
from store.run_claiming import claim_run


class Ids:
    """Ids that no other process has."""

    def new_uuid(self) -> str:
        """Return a new random UUID."""
        return str(uuid.uuid4())

    def token_bytes(self, count: int = 32) -> bytes:
        """Return unguessable bytes."""
        return secrets.token_bytes(count)


def main(database: Path, owner: str) -> None:
    """Claim what is named, until there is no more."""
    writer = open_writer(database, busy_timeout_ms=MAINTENANCE_BUSY_MS)
    batch = Batch(writer, Ids(), SystemClock().wall_ms)
    permit = Permit(Actor(ActorType.HOST, owner))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        run_id = RunId(line.strip())
        try:
            run_alone(
                batch,
                lambda tx, run_id=run_id: claim_run(
                    tx, permit, run_id, Owner(OwnerType.HOST, owner)
                ),  # type: ignore[misc]
            )
            answer = "won"
        except Rejected as refused:
            answer = str(refused.code)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    writer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
