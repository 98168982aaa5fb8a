"""The presentation revision of a run: how a viewer knows that it has something to fetch."""

from typing import Final

from store.transaction import Transaction

# Patches are not kept yet, so a viewer of any older revision is sent a whole view (README 37).
INSERT_VIEWER_RUN: Final = """
    INSERT INTO viewer_runs (run_id, presentation_revision, retained_from_revision, updated_at)
    VALUES (:run_id, 1, 1, :now)
    ON CONFLICT (run_id) DO UPDATE
       SET presentation_revision = presentation_revision + 1,
           retained_from_revision = presentation_revision + 1,
           updated_at = excluded.updated_at
"""


def advance(tx: Transaction, run_id: str) -> None:
    """Announce that this transaction changes what viewers of the run see."""
    tx.execute(INSERT_VIEWER_RUN, {"run_id": run_id, "now": tx.now})
