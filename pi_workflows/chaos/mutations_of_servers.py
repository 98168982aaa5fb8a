"""Mutations of servers and their children: starting, recovering, waiting, and being replaced."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Reworded, Rewritten

MUTATIONS: Final = (
    Mutation(
        "no_epoch_fence",
        "A server that was replaced goes on writing.",
        "P4",
        (
            Rewritten("store.host:check_fence", "row.epoch != claim.epoch", "False"),
            Rewritten("store.host:check_fence", "row.token_hash is None", "False"),
            Rewritten(
                "store.host:check_fence",
                "not hmac.compare_digest(row.token_hash, claim.token_hash)",
                "False",
            ),
            Reworded("store.host:UPDATE_HOST_RENEWED", "WHERE id = 1 AND epoch = :epoch", ""),
        ),
        Catch("two_servers", "orders", range(400)),
    ),
    Mutation(
        "live_server_replaced",
        "A second server takes the database although the claim of the first is live.",
        "P3",
        (
            Rewritten(
                "store.host:acquire",
                "row.expires_at is not None and row.expires_at > tx.now and not holder_gone",
                "False",
            ),
        ),
        Catch("two_servers", "orders", range(400)),
    ),
    Mutation(
        "epoch_not_raised",
        "The next server gets the epoch of the last one.",
        "P3",
        (
            Reworded("store.host:UPDATE_HOST_CLAIMED", "epoch = epoch + 1, ", ""),
            Rewritten("store.host:acquire", "row.epoch + 1", "row.epoch"),
        ),
        Catch("two_servers", "orders", range(400)),
    ),
    Mutation(
        "started_beside_a_live_server",
        "A server starts, copies the log and ends the children, as if no other could be alive.",
        "P3",
        (
            Rewritten(
                "actors.server_lock:_take",
                "is_ours = lock.try_acquire()",
                "is_ours = lock.try_acquire() or True",
            ),
            Rewritten(
                "actors.lock_standing:LockJudge._liveness",
                "self._world",
                "Liveness.GONE or self._world",
            ),
            Rewritten("store.opening:open_writer", "verify_state_file(path, vfs=vfs)", "pass"),
            Rewritten(
                "actors.startup:Startup._is_predecessor_gone",
                "liveness is Liveness.ALIVE and row.pid != self._world.processes.own_pid()",
                "False",
            ),
        ),
        Catch("two_servers_start", "sim", range(20)),
    ),
    Mutation(
        "recovery_skips_a_run",
        "A starting server overlooks one of the runs that its predecessor had in hand.",
        "P8",
        (Rewritten("store.recovery:under_way", "{})]", "{})][1:]"),),
        Catch("server_dies", "sim", range(60)),
    ),
    Mutation(
        "recovered_twice",
        "A run that was given up is given up again by the next recovery.",
        "P2",
        (
            Rewritten(
                "store.run_parking:recover_run",
                "run_queue.require(tx, run_id).status not in _UNDER_WAY",
                "False",
            ),
        ),
        Catch("recovered_once", "orders", range(400)),
    ),
    Mutation(
        "leases_of_the_dead_stay",
        "A starting server leaves the leases of its predecessor as they are.",
        "P8",
        (
            Rewritten(
                "store.recovery:close_predecessor",
                "leases.expire_all(tx, permit, OwnerType.HOST)",
                "0",
            ),
        ),
        Catch("sent_once", "sim", range(60)),
    ),
    Mutation(
        "children_of_the_dead_stay",
        "A starting server leaves the children of its predecessor running.",
        "P3",
        (
            Rewritten(
                "runtime.registry:ProcessRegistry.end_registered",
                "{child for child in reversed(found) if await self._end(child)}",
                "set(found)",
            ),
        ),
        Catch("runner_outlives_its_server", "sim", range(10)),
    ),
    Mutation(
        "whoever_has_the_number_is_ended",
        "A starting server ends whoever has the number of a child that is gone.",
        "P3",
        (
            Rewritten(
                "runtime.registry:ProcessRegistry._end",
                "self._processes.signal_exactly(child.identity, signal.SIGKILL)",
                "self._processes.signal_exactly("
                "self._processes.identity_of(child.identity.pid) or child.identity,"
                " signal.SIGKILL)",
            ),
        ),
        Catch("names_are_used_again", "sim", range(20)),
    ),
    Mutation(
        "child_not_stopped",
        "A run is given up while its child still runs.",
        "P3",
        (
            Rewritten(
                "actors.run_owner:RunOwner._stop_session",
                "await runner.child.stop(_STOP_GRACE_S)",
                "ExitStatus(None, None)",
            ),
        ),
        Catch("runner_freezes", "sim", range(4, 60)),
    ),
    Mutation(
        "run_left_without_an_owner",
        "An owner that ends leaves its run as if it were still served.",
        "P8",
        (
            Rewritten(
                "actors.run_owner:RunOwner._park",
                "departure is None or owned.tenure.is_released",
                "True",
            ),
        ),
        Catch("machine_sleeps", "sim", range(60)),
    ),
    Mutation(
        "no_progress_never_parks",
        "A run whose children keep dying is started for ever.",
        "P8",
        (Rewritten("store.run_parking:_park_queue", "errors += 1", "errors += 0"),),
        Catch("keeps_dying", "orders", range(40)),
    ),
    Mutation(
        "due_run_overlooked",
        "A run that a commit has made due is not looked at.",
        "P8",
        (Rewritten("actors.scheduler:Scheduler._changed", "self._wake.set()", "pass"),),
        Catch("one_run", "sim", range(5)),
    ),
    Mutation(
        "recorded_steps_not_read",
        "A child that goes on with a run does not read what is recorded.",
        "P8",
        (
            Rewritten(
                "pi_workflows.runner.engine:Engine._take_command",
                'ready.get("stepCount")',
                "False",
            ),
        ),
        Catch("machine_sleeps", "sim", range(60)),
    ),
    Mutation(
        "views_not_advanced",
        "A change is committed, and nobody who watches is told.",
        "P8",
        (
            Rewritten(
                "store.batch:_advance_views",
                "viewer_rows.advance(tx, change.aggregate_key)",
                "pass",
            ),
        ),
        Catch("views_converge", "sim", range(20)),
    ),
)
