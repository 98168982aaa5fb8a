"""Rows of `runs`, their sources and bindings: shapes, look-ups and the few column updates."""

import difflib
from dataclasses import dataclass
from typing import Final, NamedTuple

from pi_workflows.protocol.ids import ResourceId, RunId
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import RunStatus
from store.errors import RunUnknownError
from store.transaction import Reading, Transaction, affected_one

NEAREST_MAX: Final = 3
_NEAREST_POOL: Final = 256


class RunRow(NamedTuple):
    """One run; columns that this module's callers need, in table order."""

    run_id: RunId
    resource_id: ResourceId
    project_id: str | None
    definition_digest: bytes
    workflow_ref: str
    title: str | None
    status: RunStatus
    paused: int
    status_detail: str | None
    input_hash: bytes
    final_output_hash: bytes | None
    error_hash: bytes | None
    created_at: int
    updated_at: int
    finished_at: int | None

    @property
    def terminal(self) -> bool:
        """True when the run is final."""
        return self.finished_at is not None


@dataclass(frozen=True, slots=True)
class SourceRow:
    """Where the code of one mount comes from; the root's mount path is empty."""

    run_id: str
    mount_path: str
    source_type: SourceKind
    source_ref: str
    source_revision: str

    @property
    def identity(self) -> SourceIdentity:
        """What the run is held to."""
        return SourceIdentity(self.source_type, self.source_ref, self.source_revision)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """The conversation that a run belongs to; None for a headless one."""

    origin_session_id: str | None


@dataclass(frozen=True, slots=True)
class ParentRow:
    """The run that a run restarts; None for a root."""

    parent_run_id: str | None


@dataclass(frozen=True, slots=True)
class RunIdRow:
    """A run id alone."""

    run_id: str


SELECT_RUN: Final = """
    SELECT run_id, resource_id, project_id, definition_digest, workflow_ref, title, status,
           paused, status_detail, input_hash, final_output_hash, error_hash, created_at,
           updated_at, finished_at
      FROM runs WHERE run_id = :run_id
"""

SELECT_NEWEST_RUN_IDS: Final = """
    SELECT run_id FROM runs ORDER BY created_at DESC, run_id DESC LIMIT :limit
"""

SELECT_SOURCES: Final = """
    SELECT run_id, mount_path, source_type, source_ref, source_revision
      FROM run_sources WHERE run_id = :run_id ORDER BY mount_path
"""

SELECT_SESSION: Final = """
    SELECT origin_session_id FROM run_bindings WHERE run_id = :run_id
"""

SELECT_PARENT: Final = """
    SELECT parent_run_id FROM runs WHERE run_id = :run_id
"""

UPDATE_STATUS: Final = """
    UPDATE runs SET status = :status, status_detail = :status_detail, updated_at = :now
     WHERE run_id = :run_id AND status = :expected
"""

UPDATE_TOUCHED: Final = """
    UPDATE runs SET status_detail = :status_detail, updated_at = :now WHERE run_id = :run_id
"""

UPDATE_PAUSED: Final = """
    UPDATE runs SET paused = 1, updated_at = :now WHERE run_id = :run_id AND paused = 0
"""

UPDATE_UNPAUSED: Final = """
    UPDATE runs SET paused = 0, updated_at = :now WHERE run_id = :run_id AND paused = 1
"""

UPDATE_FINISHED: Final = """
    UPDATE runs
       SET status = :status, paused = 0, status_detail = NULL, finished_at = :now,
           updated_at = :now, final_output_hash = :final_output_hash, error_hash = :error_hash
     WHERE run_id = :run_id AND status = :expected
"""

ROW_STATEMENTS: Final = {
    "SELECT_RUN": RunRow,
    "SELECT_NEWEST_RUN_IDS": RunIdRow,
    "SELECT_SOURCES": SourceRow,
    "SELECT_SESSION": SessionRow,
    "SELECT_PARENT": ParentRow,
}


def find(reading: Reading, run_id: str) -> RunRow | None:
    """Return the run, or None when there is none."""
    return reading.one(RunRow, SELECT_RUN, {"run_id": run_id})


def require(reading: Reading, run_id: str) -> RunRow:
    """Return the run.

    Raises:
        RunUnknownError: no run has this id; names up to three that look alike.
    """
    found = find(reading, run_id)
    if found is None:
        raise unknown(reading, run_id)
    return found


def unknown(reading: Reading, run_id: str) -> RunUnknownError:
    """Return the error for a run that is not there; it names up to three that look alike."""
    return RunUnknownError(run_id, tuple(nearest(reading, run_id)))


def nearest(reading: Reading, run_id: str) -> list[str]:
    """Return up to three ids among the newest 256 runs that look like `run_id`, best first."""
    newest = reading.many(RunIdRow, SELECT_NEWEST_RUN_IDS, {"limit": _NEAREST_POOL})
    names = [row.run_id for row in newest]
    prefixed = [name for name in names if run_id and name.startswith(run_id)]
    alike = difflib.get_close_matches(run_id, names, n=NEAREST_MAX, cutoff=0.5)
    return list(dict.fromkeys([*prefixed, *alike]))[:NEAREST_MAX]


def sources(reading: Reading, run_id: str) -> list[SourceRow]:
    """Return the pinned sources, root first."""
    return reading.many(SourceRow, SELECT_SOURCES, {"run_id": run_id})


def session_of(reading: Reading, run_id: str) -> str | None:
    """Return the conversation that a run belongs to; None when it is headless."""
    found = reading.one(SessionRow, SELECT_SESSION, {"run_id": run_id})
    return None if found is None else found.origin_session_id


def is_restart(reading: Reading, run_id: str) -> bool:
    """Say whether a run restarts another one."""
    found = reading.one(ParentRow, SELECT_PARENT, {"run_id": run_id})
    return found is not None and found.parent_run_id is not None


def set_status(
    tx: Transaction, run: RunRow, status: RunStatus, *, detail: str | None = None
) -> None:
    """Move a live run's status column; the caller has asked the machine."""
    affected_one(
        tx.execute(
            UPDATE_STATUS,
            {
                "run_id": run.run_id,
                "status": status,
                "status_detail": detail,
                "expected": run.status,
                "now": tx.now,
            },
        )
    )


def touch(tx: Transaction, run_id: str, *, detail: str | None) -> None:
    """Note that the run moved, and what it says of itself (None clears it)."""
    affected_one(
        tx.execute(UPDATE_TOUCHED, {"run_id": run_id, "status_detail": detail, "now": tx.now})
    )


def set_paused(tx: Transaction, run_id: str) -> None:
    """Keep a live run that is not paused from being claimed."""
    affected_one(tx.execute(UPDATE_PAUSED, {"run_id": run_id, "now": tx.now}))


def set_unpaused(tx: Transaction, run_id: str) -> None:
    """Let a paused run be claimed again, where nothing else keeps it."""
    affected_one(tx.execute(UPDATE_UNPAUSED, {"run_id": run_id, "now": tx.now}))


def set_finished(
    tx: Transaction,
    run: RunRow,
    status: RunStatus,
    *,
    final_output_hash: bytes | None,
    error_hash: bytes | None,
) -> None:
    """Write the terminal columns."""
    affected_one(
        tx.execute(
            UPDATE_FINISHED,
            {
                "run_id": run.run_id,
                "status": status,
                "expected": run.status,
                "final_output_hash": final_output_hash,
                "error_hash": error_hash,
                "now": tx.now,
            },
        )
    )
