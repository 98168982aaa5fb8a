"""Mutations of follow-ups: what outlives its run, what is taken back twice."""

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
)
