"""Mutations of pausing and restarting: what goes on that should stand, what is done twice."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Rewritten

MUTATIONS: Final = (
    Mutation(
        "pause_keeps_the_owner",
        "A run that is paused stays in the hands of its owner, who goes on.",
        "P3",
        (
            Rewritten(
                "store.run_pausing:_stop",
                "if in_hand:\n        park_paused",
                "if False:\n        park_paused",
            ),
        ),
        Catch("paused_or_recorded", "orders", range(400)),
    ),
    Mutation(
        "pause_not_seen_by_a_claim",
        "A paused run is claimed like any other.",
        "P4",
        (
            Rewritten(
                "store.run_claiming:_check_claimable", "run.terminal or run.paused", "run.terminal"
            ),
        ),
        Catch("paused_or_claimed", "orders", range(400)),
    ),
    Mutation(
        "restart_of_the_living",
        "A run that has not ended is restarted.",
        "P2",
        (
            Rewritten("store.run_restarting:_require_over", "not parent.terminal", "False"),
            Rewritten(
                "store.run_restarting:_require_over", "queued.status not in _SETTLED", "False"
            ),
        ),
        Catch("restarted_once", "orders", range(400)),
    ),
    Mutation(
        "restart_twice",
        "A run that was restarted is restarted again.",
        "P6",
        (
            Rewritten(
                "store.run_restarting:restart_run",
                "child is not None and permit.expected_revision in",
                "child is not None and permit.expected_revision not in",
            ),
        ),
        Catch("restarted_once", "orders", range(400)),
    ),
)
