"""Mutations of what is told beside the steps: follow-ups that outlive their run, late updates."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Rewritten

MUTATIONS: Final = (
    Mutation(
        "follow_up_outlives_a_cancel",
        "A run that is cancelled leaves its follow-ups in the queue.",
        "P2",
        (
            Rewritten(
                "store.follow_ups:cancel_unsent",
                "if status is RunStatus.COMPLETED:",
                "if status is not RunStatus.FAILED:",
            ),
        ),
        Catch("follow_ups_meet_the_end", "orders", range(400)),
    ),
    Mutation(
        "follow_up_removed_twice",
        "The second of two removals is told that it was the first.",
        "P6",
        (
            Rewritten(
                "store.follow_ups:remove_follow_up",
                "row.order_number, row.status, row.revision, adopted=True",
                "row.order_number, row.status, row.revision, adopted=False",
            ),
        ),
        Catch("follow_ups_meet_the_end", "orders", range(400)),
    ),
    Mutation(
        "update_of_the_past",
        "An update is taken from a try that has ended.",
        "P4",
        (
            Rewritten(
                "store.updates:_speaking",
                "attempts.unfinished(tx, run.run_id)",
                "attempts.unfinished(tx, run.run_id) or AttemptRow(attempt_id, run.run_id, "
                "'fetch', 1, 1, 'compute', AttemptStatus.RUNNING, None, None, None)",
            ),
        ),
        Catch("updated_in_time", "orders", range(400)),
    ),
)
