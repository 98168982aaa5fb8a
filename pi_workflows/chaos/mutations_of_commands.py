"""Mutations of requests and messages: what is asked twice, late, or by somebody replaced."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Reworded, Rewritten

MUTATIONS: Final = (
    Mutation(
        "receipt_not_stored",
        "A request whose answer was lost is carried out again when it is repeated.",
        "P6",
        (Rewritten("store.receipts:receipted", "_insert(tx, request, reply)", "pass"),),
        Catch("asked_again", "orders", range(400)),
    ),
    Mutation(
        "receipt_ignores_the_request",
        "Another request under a used key is answered as if it were the first one.",
        "P6",
        (
            Rewritten(
                "store.receipts:stored",
                "row.request_fingerprint != request.fingerprint",
                "False",
            ),
        ),
        Catch("same_key_for_something_else", "orders", range(400)),
    ),
    Mutation(
        "message_applied_twice",
        "A runner's message that comes a second time is dealt with anew.",
        "P6",
        (
            Rewritten(
                "store.run_messages:advance_once",
                "found is not None and found.answered is not None",
                "False",
            ),
            Reworded("store.workers:INSERT_ANSWERED", "INTO worker", "OR REPLACE INTO worker"),
        ),
        Catch("late_words_of_an_old_child", "orders", range(400)),
    ),
    Mutation(
        "message_id_is_enough",
        "Another message under a used id is answered as the first one was.",
        "P6",
        (
            Rewritten(
                "store.run_messages:_repeat",
                "known.request_fingerprint != message.fingerprint",
                "False",
            ),
        ),
        Catch("late_words_of_an_old_child", "orders", range(400)),
    ),
    Mutation(
        "repeat_told_otherwise",
        "Whoever repeats a message is told at which revision the run stands by now.",
        "P6",
        (
            Rewritten(
                "store.run_messages:_repeat",
                "known.accepted_revision or 0",
                "holding(tx, run_resource_id(message.run_id)).revision",
            ),
        ),
        Catch("late_words_of_an_old_child", "orders", range(400)),
    ),
    Mutation(
        "other_child_is_heard",
        "A child is heard that names another epoch than that of the run's one child.",
        "P4",
        (
            Rewritten(
                "actors.runner_channel:RunnerChannel._parse",
                'frame.get("runnerEpoch"))',
                "credentials.runner_epoch)",
            ),
        ),
        Catch("child_of_another_epoch", "sim", range(10)),
    ),
    Mutation(
        "other_generation_is_heard",
        "A child is heard that names another generation than that of the claim.",
        "P4",
        (
            Rewritten(
                "actors.runner_channel:RunnerChannel._parse",
                'frame.get("generation")',
                "credentials.generation",
            ),
        ),
        Catch("child_of_another_epoch", "sim", range(10)),
    ),
    Mutation(
        "lost_claim_is_a_refusal",
        "A message that comes too late is answered as refused, so that the run fails.",
        "P4",
        (
            Rewritten(
                "store.run_messages:advance_once",
                "    except ClaimLostError:\n        raise\n",
                "",
            ),
        ),
        Catch("late_words_of_an_old_child", "orders", range(400)),
    ),
    Mutation(
        "half_a_message_kept",
        "Of a message that is refused, what came before the refusal stays.",
        "P2",
        (Rewritten("store.run_messages:advance_once", "tx.undo()", "pass"),),
        Catch("hasty_runner", "orders", range(400)),
    ),
    Mutation(
        "any_node_may_begin",
        "A runner may begin a node that is not the next one.",
        "P4",
        (
            Rewritten(
                "store.run_advance:_Advance._check_next",
                "not isinstance(legal, GoTo) or legal.node_id != node_id",
                "False",
            ),
            Rewritten("store.run_advance:_Advance._start", "start.visit != visit", "False"),
        ),
        Catch("late_words_of_an_old_child", "orders", range(400)),
    ),
    Mutation(
        "cancel_beats_the_end",
        "A run that has ended is cancelled.",
        "P3",
        (
            Rewritten("store.run_cancelling:cancel_run", "run.terminal", "False"),
            Rewritten(
                "store.run_ending:end_run",
                "RUN_MACHINE.apply(run.status, MOVE_TO_END[end.status])",
                "pass",
            ),
        ),
        Catch("cancelled_or_finished", "orders", range(400)),
    ),
    Mutation(
        "cancel_leaves_the_launch",
        "A run is cancelled, and its place in the queue stays open.",
        "P2",
        (
            Rewritten(
                "store.run_ending:end_run",
                "settle_queue(tx, recorder, run.run_id, end.status)",
                "pass",
            ),
        ),
        Catch("cancelled_or_claimed", "orders", range(400)),
    ),
    Mutation(
        "launch_without_a_claim",
        "A child is launched for a run that was taken away meanwhile.",
        "P4",
        (Rewritten("store.run_claiming:launch", "leases.renew_claim(tx, permit.claim)", "pass"),),
        Catch("cancelled_or_launched", "orders", range(400)),
    ),
    Mutation(
        "resume_of_the_ended",
        "A run that has ended is put back into the queue.",
        "P4",
        (
            Rewritten("store.run_resuming:resume_run", "run.terminal", "False"),
            Rewritten(
                "store.run_resuming:resume_run",
                "not stands and not run.paused",
                "not stands and not run.paused and not run.terminal",
            ),
        ),
        Catch("resumed_once", "orders", range(400)),
    ),
    Mutation(
        "resume_moves_twice",
        "Each of several equal resumes moves the run.",
        "P2",
        (Rewritten("store.run_resuming:resume_run", "not stands and not run.paused", "False"),),
        Catch("resumed_once", "orders", range(400)),
    ),
)
