"""Mutations of servers beside one that stands still, and of claims that outlast a standstill."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Rewritten

MUTATIONS: Final = (
    Mutation(
        "silent_server_ended_at_once",
        "A server that does not answer is ended although its claim is live.",
        "P3",
        (
            Rewritten(
                "actors.lock_standing:LockJudge._deaf",
                "Standing.CLAIMING if left_ms else Standing.LAPSED",
                "Standing.LAPSED",
            ),
        ),
        Catch("silent_server", "sim", range(10)),
    ),
    Mutation(
        "answering_server_ended",
        "A start ends the server that is there, though that one answers.",
        "P3",
        (
            Rewritten(
                "actors.server_lock:_take",
                "raise AlreadyRunning(found.pid)",
                "await judge.displace(found)",
            ),
        ),
        Catch("server_freezes", "sim", range(40)),
    ),
    Mutation(
        "unproven_server_ended",
        "A silent server is ended of which nothing is proven.",
        "P3",
        (
            Rewritten(
                "actors.lock_standing:LockJudge.look",
                "liveness is not Liveness.ALIVE",
                "liveness is Liveness.GONE",
            ),
        ),
        Catch("nobody_can_be_proven", "sim", range(16, 60)),
    ),
    Mutation(
        "dead_holder_is_asked",
        "A start asks whoever listens whether it is the server, though that one is proven dead.",
        "P9",
        (
            Rewritten(
                "actors.lock_standing:LockJudge.look",
                "if is_ours and (",
                "if is_ours and holder is None and (",
            ),
        ),
        Catch("number_of_the_dead", "sim", range(10)),
    ),
    Mutation(
        "lock_is_left",
        "A server that ends leaves the file that names it.",
        "P9",
        (
            Rewritten(
                "actors.server_lock:Locked.release",
                "remove_lock_file(paths.lock, self.holder, files)",
                "pass",
            ),
        ),
        Catch("start_in_vain", "sim", range(10)),
    ),
    Mutation(
        "claim_not_renewed",
        "An owner takes its claim for renewed and has told nobody.",
        "P3",
        (Rewritten("runtime.tenure:Tenure._keep", "await self._terms.renew()", "pass"),),
        Catch("blocked_runner", "sim", range(10)),
    ),
    Mutation(
        "server_ends_after_a_sleep",
        "A server whose claim has expired ends, though nobody has replaced it.",
        "P8",
        (
            Rewritten(
                "store.host:heartbeat",
                "    expires_at = tx.now + HOST_CLAIM_MS\n",
                "    expires_at = tx.now + HOST_CLAIM_MS\n"
                "    if (current(tx).expires_at or 0) <= tx.now:\n"
                "        raise EpochLost\n",
            ),
        ),
        Catch("ten_minutes_asleep", "sim", range(10)),
    ),
    Mutation(
        "lock_waited_for_without_end",
        "A command waits for the write lock for as long as somebody else holds it.",
        "P10",
        (
            Rewritten(
                "actors.store_actor:StoreActor._begin",
                "trio.current_time() + pause > give_up_at",
                "False",
            ),
        ),
        Catch("write_lock_is_taken", "sim", range(20)),
    ),
    Mutation(
        "lock_waited_for_in_turn",
        "Of those who wait for the write lock each waits its five seconds after the others.",
        "P10",
        (
            Rewritten(
                "actors.store_actor:StoreActor._refuse_busy",
                "self._take_more(taken, len(self._mailbox))",
                "pass",
            ),
        ),
        Catch("write_lock_is_taken", "sim", range(20)),
    ),
    Mutation(
        "reader_moves_the_log",
        "Whoever only reads moves the log into the file when it closes it as the last one.",
        "P2",
        (
            Rewritten(
                "store.opening:open_reader",
                "apsw.SQLITE_OPEN_READONLY",
                "apsw.SQLITE_OPEN_READWRITE",
            ),
            Rewritten(
                "store.opening:open_reader",
                "connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)",
                "pass",
            ),
        ),
        Catch("power_goes", "sim", range(2, 12)),
    ),
    Mutation(
        "secret_in_the_event",
        "The secret of a claim is written into the event by which it is given out.",
        "P4",
        (
            Rewritten(
                "store.run_claiming:claim_run",
                '{"generation": claim.generation}',
                '{"generation": claim.generation, "token": claim.token}',
            ),
        ),
        Catch("storm", "sim", range(3)),
    ),
)
