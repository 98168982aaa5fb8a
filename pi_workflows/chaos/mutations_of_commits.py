"""Mutations of transactions: when an answer is given, and what a failure undoes or leaves."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Reworded, Rewritten

_COMMIT_BEGINS: Final = "reached = self._world.sync_points.reached"
_ANSWERING: Final = "    for answer in answers:\n        answer()\n"

MUTATIONS: Final = (
    Mutation(
        "early_answer",
        "A command is answered before its COMMIT.",
        "P1",
        (
            Rewritten("actors.store_actor:StoreActor._commit", _ANSWERING, ""),
            Rewritten(
                "actors.store_actor:StoreActor._commit",
                _COMMIT_BEGINS,
                f"{_ANSWERING.strip()}\n    await trio.sleep(0.05)\n    {_COMMIT_BEGINS}",
            ),
        ),
        Catch("server_dies", "sim", range(22, 60)),
        general=("procs",),
    ),
    Mutation(
        "answered_and_lost",
        "A command is answered, and nothing of it is kept.",
        "P1",
        (
            Rewritten(
                "actors.store_actor:StoreActor._commit",
                "self._batch.commit",
                "self._batch.abandon",
            ),
        ),
        Catch("one_winner", "orders", range(40)),
        general=("orders", "procs"),
    ),
    Mutation(
        "cancelled_and_carried_out",
        "Whoever stops waiting is told so, and his command runs all the same.",
        "P7",
        (
            Rewritten(
                "runtime.mailbox:Mailbox.ask",
                "del self._lanes[lane][letter]\n        self._room[lane].release()\n",
                "letter._asker = None\n",
            ),
        ),
        Catch("stops_waiting", "sim", range(20)),
    ),
    Mutation(
        "answered_cancelled_after_commit",
        "Whoever stops waiting is told so, although his command was taken.",
        "P7",
        (
            Rewritten(
                "runtime.mailbox:Mailbox.ask",
                "return trio.lowlevel.Abort.FAILED\n",
                "letter._asker = None\n            return trio.lowlevel.Abort.SUCCEEDED\n",
            ),
        ),
        Catch("stops_waiting", "sim", range(20)),
    ),
    Mutation(
        "shown_before_the_commit",
        "Whoever looks is answered at once, from what is not committed yet.",
        "P1",
        (
            Rewritten(
                "actors.store_actor:StoreActor._run_group",
                "answers.append(partial(letter.answer, run(letter.message)))\n",
                "before = self._writer.connection.total_changes()\n"
                "            answers.append(partial(letter.answer, run(letter.message)))\n"
                "            if self._writer.connection.total_changes() == before:\n"
                "                answers[-1]()\n",
            ),
        ),
        Catch("stops_waiting", "sim", range(60)),
    ),
    Mutation(
        "unknown_told_as_not_done",
        "When a COMMIT has failed, its callers are told that nothing was done.",
        "P6",
        (
            Rewritten(
                "actors.store_actor:StoreActor.carry_out",
                "letter.refuse(own_copy(fault))",
                "letter.refuse(StoreDown())",
            ),
        ),
        Catch("stops_waiting", "sim", range(60)),
    ),
    Mutation(
        "missing_savepoint",
        "What a command has written before it failed stays.",
        "P2",
        (
            Rewritten("store.batch:Batch.run", "writer.rollback_to()", "writer.release()"),
            Rewritten("store.batch:Batch.run_lightly", "written() != tx.undoable_at", "False"),
        ),
        Catch("neighbours_of_a_failing_command", "orders", range(400)),
    ),
    Mutation(
        "neighbours_lost",
        "When SQLite throws a transaction away, its other commands are answered and not repeated.",
        "P2",
        (
            Rewritten(
                "actors.store_actor:StoreActor.carry_out",
                "await self._run_group([letter], self._batch.run)",
                "letter.answer(None)",
            ),
        ),
        Catch("neighbours_of_a_failing_command", "orders", range(400)),
    ),
    Mutation(
        "revision_not_checked",
        "A command is carried out although the caller has seen another revision.",
        "P2",
        (
            Rewritten(
                "store.authority:revise",
                "permit.expected_revision is not None"
                " and permit.expected_revision != held.revision",
                "False",
            ),
        ),
        Catch("revisions", "orders", range(400)),
    ),
    Mutation(
        "revision_skipped",
        "A change raises the revision by two.",
        "P2",
        (
            Reworded("store.resources:UPDATE_REVISION", "revision + 1", "revision + 2"),
            Rewritten(
                "store.resources:Recorder.record", "self.revision += 1", "self.revision += 2"
            ),
        ),
        Catch("one_run", "sim", range(5)),
    ),
    Mutation(
        "event_not_written",
        "A change raises the revision and leaves no event.",
        "P2",
        (
            Rewritten(
                "store.resources:Recorder.record",
                "    self.revision += 1\n",
                "    self.revision += 1\n"
                "    if happening.event_type == 'run_started':\n"
                "        tx.changes.add(self.change)\n"
                "        return self.revision\n",
            ),
        ),
        Catch("one_run", "sim", range(5)),
    ),
    Mutation(
        "look_that_writes",
        "Whoever looks at a run marks it as touched.",
        "P2",
        (
            Rewritten(
                "store.run_views:run_view",
                "run = run_summaries.require(reading, run_id)\n",
                "run = run_summaries.require(reading, run_id)\n"
                '    touched = "UPDATE runs SET updated_at = updated_at + 1"\n'
                "    reading.connection.execute(touched)\n",
            ),
        ),
        Catch("reads_write_nothing", "orders", range(200)),
    ),
    Mutation(
        "lock_taken_too_late",
        "A transaction takes the write lock when it first writes, and not when it begins.",
        "P2",
        (
            Rewritten(
                "store.database:Writer.begin_immediate",
                '_control("BEGIN IMMEDIATE")',
                '_control("BEGIN")',
            ),
        ),
        Catch("first_come", "procs", range(60)),
    ),
)
