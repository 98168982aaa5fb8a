"""Mutations of what the disk is trusted with, and of what is done after it has failed."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Reworded, Rewritten

MUTATIONS: Final = (
    Mutation(
        "commit_not_synced",
        "SQLite does not wait for the disk at COMMIT.",
        "P1",
        (Reworded("store.opening:_WRITER_PRAGMAS", "synchronous = FULL", "synchronous = NORMAL"),),
        Catch("one_winner", "crash"),
        general=("crash",),
    ),
    Mutation(
        "failed_commit_is_refused",
        "A COMMIT that failed is told as if nothing had been done, and the store goes on.",
        "P6",
        (
            Rewritten(
                "actors.store_actor:StoreActor._run_group",
                "    await self._commit(answers)\n",
                "    try:\n"
                "        await self._commit(answers)\n"
                "    except OutcomeUnknown:\n"
                "        for letter in taken:\n"
                "            letter.refuse(StateBusyError())\n",
            ),
        ),
        Catch(
            "told_that_it_was_not_done",
            "crash",
            choices={
                "disk fault#1": "failed flush",
                "disk fault at call#1": "5",
                "disk fault lasts#1": "until repaired",
            },
        ),
    ),
    Mutation(
        "log_not_settled",
        "After an unclean stop the log is read as it is, though the disk may not have it.",
        "P1",
        (Rewritten("store.opening:open_writer", "if after_unclean_stop", "if False"),),
        Catch(
            "one_winner",
            "crash",
            choices={
                "first fault#1": "flush failed, server killed",
                "first fault after#1": "commit 1 sync state.sqlite-wal 1",
                "power cut#1": "start 2 write state.sqlite-wal 3",
                "what survives#1": "the first writes",
            },
        ),
    ),
    Mutation(
        "log_copy_not_synced",
        "The copy of the log takes its place before the disk has it.",
        "P1",
        (Rewritten("store.wal:settle_wal", "files.sync(copy)", "pass"),),
        Catch(
            "one_winner",
            "crash",
            choices={
                "first fault#1": "flush failed, server killed",
                "first fault after#1": "start 1 sync state.sqlite-wal 3",
                "power cut#1": "start 2 sync directory the directory 1",
                "what survives#1": "nothing",
            },
        ),
    ),
    Mutation(
        "log_rename_not_synced",
        "The copy of the log takes its place, and the disk may forget that it did.",
        "P1",
        (Rewritten("store.wal:settle_wal", "files.sync_directory(log.parent)", "pass"),),
        Catch(
            "one_winner",
            "crash",
            choices={
                "first fault#1": "server killed",
                "first fault after#1": "commit 1 write state.sqlite-wal 8",
                "power cut#1": "start 2 sync state.sqlite-wal 1",
                "what survives#1": "nothing",
            },
        ),
    ),
    Mutation(
        "log_settled_in_place",
        "After an unclean stop the log is flushed once more where it lies, and not copied.",
        "P1",
        (
            Rewritten("store.wal:settle_wal", "files.copy(log, copy)", "files.sync(log)"),
            Rewritten("store.wal:settle_wal", "files.sync(copy)", "return True"),
        ),
        Catch(
            "one_winner",
            "crash",
            choices={
                "first fault#1": "flush failed, server killed",
                "first fault after#1": "commit 1 sync state.sqlite-wal 1",
                "power cut#1": "start 2 write state.sqlite-wal 3",
                "what survives#1": "the first writes",
            },
        ),
    ),
)
