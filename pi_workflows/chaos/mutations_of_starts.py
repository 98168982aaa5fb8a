"""Mutations of starts: that a person would have to help, and that a damaged file is served."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Rewritten

MUTATIONS: Final = (
    Mutation(
        "stale_lock_not_taken_over",
        "Whom the lock names is taken for alive, though no such process is there.",
        "P9",
        (
            Rewritten(
                "actors.lock_standing:LockJudge._liveness",
                "self._world",
                "Liveness.ALIVE or self._world",
            ),
        ),
        Catch("server_dies", "sim", range(20)),
    ),
    Mutation(
        "refusal_names_nobody",
        "A start that finds another server at work does not say which.",
        "P9",
        (
            Rewritten(
                "actors.server_lock:_take",
                "raise AlreadyRunning(found.pid)",
                "raise AlreadyRunning(None)",
            ),
        ),
        Catch("two_servers_start", "sim", range(20)),
    ),
    Mutation(
        "sound_file_refused",
        "After an unclean stop a sound file is called damaged.",
        "P9",
        (
            Rewritten(
                "actors.owning:Owning.look_through",
                "not quick_check.is_sound(",
                "quick_check.is_sound(",
            ),
        ),
        Catch("server_dies", "sim", range(20)),
    ),
    Mutation(
        "left_half_of_a_first_start_refused",
        "What a killed creation has left keeps the next start from creating the database.",
        "P9",
        (
            Rewritten(
                "store.creation:_remove_unfinished",
                "files.remove(leftover)",
                'raise StateIncompatibleError("unfinished state")',
            ),
        ),
        Catch("first_start", "crash"),
    ),
    Mutation(
        "damaged_file_served",
        "After an unclean stop the file is served whatever a look at it finds.",
        "P12",
        (
            Rewritten(
                "actors.owning:Owning.look_through",
                "not quick_check.is_sound(Reading(writer.connection, self._clock.wall_ms()))",
                "False",
            ),
        ),
        Catch("database_rots", "sim", range(40)),
    ),
    Mutation(
        "unclean_stop_forgotten",
        "A start does not notice that the last server has not ended in order.",
        "P12",
        (Rewritten("actors.owning:Owning.create", "bool(self._state.wal_bytes())", "False"),),
        Catch("database_rots", "sim", range(40)),
    ),
    Mutation(
        "damaged_file_tidied_up",
        "A start that refuses a damaged file moves the log into it as it closes it.",
        "P12",
        (Rewritten("actors.owning:Owning.open", "writer.keep_log()", "pass"),),
        Catch("database_rots", "sim", range(40)),
    ),
    Mutation(
        "damage_met_goes_unheard",
        "A read finds the file damaged, and the server goes on writing to it.",
        "P12",
        (
            Rewritten(
                "actors.startup:Startup.run", "readers.tell_damage(store.end_damaged)", "pass"
            ),
        ),
        Catch("database_rots", "sim", range(40)),
    ),
)
