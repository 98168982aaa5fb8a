"""Mutations of bounds: what one client, or all of them, can make a server keep."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Rewritten

MUTATIONS: Final = (
    Mutation(
        "batch_unbounded",
        "A batch takes whatever waits.",
        "P10",
        (
            Rewritten(
                "actors.store_actor:StoreActor._run_group",
                "index == len(taken) < BATCH_MAX",
                "index == len(taken)",
            ),
            Rewritten(
                "actors.store_actor:StoreActor._run_group",
                "min(PORTION_MAX, BATCH_MAX - index)",
                "PORTION_MAX",
            ),
        ),
        Catch("clients_flood", "sim", range(20)),
    ),
    Mutation(
        "unread_answers_kept",
        "A request counts as done although nobody has read its answer.",
        "P10",
        (
            Rewritten(
                "actors.client_session:ClientSession._answer",
                "self._responses.append(_Outgoing(frame, frees_slot=True))",
                "self._responses.append(_Outgoing(frame, frees_slot=False))\n"
                "    self._release_slot()",
            ),
        ),
        Catch("clients_flood", "sim", range(20)),
    ),
    Mutation(
        "frame_unbounded",
        "A frame may be as long as its sender likes.",
        "P10",
        (
            Rewritten(
                "pi_workflows.protocol.frames:FrameDecoder.feed",
                "longest >= FRAME_BYTES_MAX",
                "longest >= 64 * FRAME_BYTES_MAX",
            ),
        ),
        Catch("clients_flood", "sim", range(20)),
    ),
    Mutation(
        "log_grows_while_busy",
        "However long the log grows, it is moved into the file only when nobody writes.",
        "P10",
        (
            Rewritten(
                "actors.store_actor:StoreActor.serve",
                "self._writer.wal_frames >= self._checkpoint_due",
                "False",
            ),
        ),
        Catch("log_waits_for_a_reader", "sim", range(20)),
    ),
    Mutation(
        "more_served_than_may_be",
        "A server starts more runners than it may have at a time.",
        "P8",
        (
            Rewritten(
                "actors.scheduler:Scheduler._admit_due",
                "services.capacity - len(self._admitted)",
                "services.capacity * 2 - len(self._admitted)",
            ),
        ),
        Catch("several_runs", "sim", range(20)),
    ),
    Mutation(
        "abandoned_code_runs_beside",
        "A child whose code ignores its deadline goes on with the run beside it.",
        "P8",
        (
            Rewritten(
                "pi_workflows.chaos.simulated_runner:SimulatedRunner._run_turn",
                "await self._abandon(call)",
                "result = CallResult(outcome=StepOutcome.TIMED_OUT)",
            ),
        ),
        Catch("code_is_late", "sim", range(10)),
    ),
    Mutation(
        "look_ended_without_need",
        "A read of the whole file is ended at once, as if the log could not wait for it.",
        "P8",
        (
            Rewritten(
                "actors.heavy_reads:HeavyReads._within_bounds",
                "crowded.wait_value, True",
                "crowded.wait_value, False",
            ),
        ),
        Catch("everybody_looks", "sim", range(20)),
    ),
    Mutation(
        "crowded_log_waits",
        "The log waits for a reader however much piles up behind it.",
        "P10",
        (
            Rewritten(
                "actors.store_actor:StoreActor._checkpoint",
                "left >= self._log_frames_max",
                "False",
            ),
        ),
        Catch("log_waits_for_a_reader", "sim", range(20)),
    ),
)
