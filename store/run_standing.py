"""All that a runner's message is held against, in one query instead of five.

What is read here is what `runs`, `authority`, `attempts` and `workers` read one by one for others.
"""

from typing import Final, NamedTuple

from pi_workflows.protocol.ids import WorkerEpoch
from store.attempts import AttemptRow, LastStepRow
from store.authority import HoldingRow
from store.runs import RunRow
from store.transaction import Reading
from store.workers import AnsweredRow


class StandingRow(NamedTuple):
    """Where a run stands when a message of its runner comes in.

    Attributes:
        attempt: the one try that is not final, interrupted included; None when there is none.
        last: the newest step; None before the first.
        answered: the answer that this very message got before; None when it is new.
    """

    run: RunRow
    held: HoldingRow
    attempt: AttemptRow | None
    last: LastStepRow | None
    answered: AnsweredRow | None


SELECT_STANDING: Final = """
    SELECT r.run_id, r.resource_id, r.project_id, r.definition_digest, r.workflow_ref, r.title,
           r.status, r.paused, r.status_detail, r.input_hash, r.final_output_hash, r.error_hash,
           r.created_at, r.updated_at, r.finished_at,
           o.resource_type, o.aggregate_key, o.revision,
           l.generation, l.owner_type, l.owner_id, l.token_hash, l.expires_at,
           a.attempt_id, a.run_id, a.node_id, a.visit, a.attempt_number, a.node_type, a.status,
           a.timeout_ms, a.started_at, a.finished_at,
           s.step_index, s.authored_count, e.node_id, e.status, e.output_hash, e.error_hash,
           m.request_fingerprint, m.outcome, m.accepted_revision, m.result_hash, m.error_hash
      FROM runs AS r
      JOIN resources AS o ON o.resource_id = r.resource_id
      JOIN leases AS l ON l.resource_id = r.resource_id
      LEFT JOIN node_attempts AS a ON a.run_id = r.run_id AND a.finished_at IS NULL
      LEFT JOIN run_steps AS s ON s.run_id = r.run_id
            AND s.step_index = (SELECT max(t.step_index) FROM run_steps AS t
                                 WHERE t.run_id = r.run_id)
      LEFT JOIN node_attempts AS e ON e.attempt_id = s.attempt_id
      LEFT JOIN worker_messages AS m ON m.worker_epoch = :worker_epoch
            AND m.message_id = :message_id
     WHERE r.run_id = :run_id
"""

ROW_STATEMENTS: Final = {"SELECT_STANDING": StandingRow}


def standing(
    reading: Reading, run_id: str, worker_epoch: WorkerEpoch, message_id: str
) -> StandingRow | None:
    """Return where the run stands for a message of one of its runners; None without such a run."""
    return reading.one(
        StandingRow,
        SELECT_STANDING,
        {"run_id": run_id, "worker_epoch": worker_epoch, "message_id": message_id},
    )
