"""Every question that the product asks its store, by name; some are about one run."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pi_workflows.protocol.ids import RunId, run_resource_id
from store import (
    definitions,
    effect_lists,
    follow_up_views,
    host,
    progress,
    projection,
    projection_weight,
    quick_check,
    recovery,
    run_history,
    run_lists,
    run_queue,
    run_summaries,
    run_views,
    runner_ends,
    runs,
    server_counts,
    state_status,
    unresolved_effects,
    verification,
)
from store.event_log import every_event
from store.transaction import Reading

ReadPath = Callable[[Reading, RunId], object]


def _newest_steps(reading: Reading, run_id: RunId) -> object:
    definition = definitions.load(reading, runs.require(reading, run_id).definition_digest)
    return run_history.page(reading, run_id, definition)


PATHS: Final[Mapping[str, ReadPath]] = MappingProxyType(
    {
        "state of a run": projection.run_state,
        "weight of a run": projection_weight.body_bytes,
        "view of a run": run_views.run_view,
        "list of runs": lambda reading, _: run_lists.page(reading, limit=10),
        "row of a run": runs.require,
        "newest steps of a run": _newest_steps,
        "summary of a run": run_summaries.require,
        "last words of a run": run_queue.last_words,
        "bad end of a runner": runner_ends.bad_end,
        "progress of a run": progress.has_progressed,
        "follow-ups of a run": follow_up_views.page,
        "list of effects": lambda reading, run: effect_lists.page(
            reading, run_id=run, settled_too=True, limit=10
        ),
        "unresolved effects": lambda reading, run: unresolved_effects.unresolved(
            reading, run_resource_id(run), limit=64
        ),
        "what may be claimed": lambda reading, _: run_queue.claimable(reading, 10),
        "what a start recovers": lambda reading, _: recovery.under_way(reading),
        "the server's claim": lambda reading, _: host.current(reading),
        "counts of the server": lambda reading, _: server_counts.counts(reading),
        "status of the state": lambda reading, _: state_status.state_status(reading, wal_bytes=0),
        "verification": lambda reading, _: verification.verify(reading),
        "quick check": lambda reading, _: quick_check.is_sound(reading),
    }
)

OF_THE_FILE: Final = frozenset({"status of the state", "verification", "quick check"})
"""Questions about the file itself, which no command may ask."""


def changes_of(path: ReadPath, reading: Reading, run: RunId) -> int:
    """Ask one question; return how many rows were changed and how many events came by it."""
    changed, events = reading.connection.total_changes(), len(every_event(reading))
    path(reading, run)
    changed = reading.connection.total_changes() - changed
    return changed + len(every_event(reading)) - events
