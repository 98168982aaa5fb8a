"""What the events of a leased resource must say, whatever happened to it and in which order.

The check knows nothing of the code that writes them: it follows the story of one resource and
asks of each line whether its lease allowed it.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pi_workflows.chaos.scene import Acknowledged, Look
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import OwnerType
from runtime.chaos.outcome import PromiseBroken
from store.authority import CLAIM_MS, Claim, holding
from store.event_log import EventRow

CLAIMED: Final = "lease.claimed"
RELEASED: Final = "lease.released"

_FREEING: Final = frozenset(
    {
        RELEASED,
        *(f"run_{end}" for end in ("completed", "failed", "timed_out", "cancelled")),
        "run.queue_parked",
        "run.effect_ambiguous",
        "run.paused",
        "run.source_changed",
        "run.worker_no_progress",
    }
)
"""Events whose commit frees the lease."""


@dataclass(slots=True)
class _Held:
    """The lease as the events have left it.

    Attributes:
        until: UTC epoch ms of its expiry; None while it is free.
        inline_at: instant of the transaction that freed it, or took, used and freed it; what is
            written by it carries the generation still. None while it is owned.
    """

    generation: int = 0
    until: int | None = None
    inline_at: int | None = None


def check_lease(look: Look, resource: ResourceId) -> None:
    """Hold a resource's events, its lease row and what was answered against the promises.

    Generations rise by one; a lease is taken only when it is free or has expired; what needs the
    lease happens under its newest generation and before it expires; a stored expiry is never
    earlier than one that was told; what was answered is there.

    Raises:
        PromiseBroken: names the promise and the line of the story that breaks it.
    """
    events = look.events(resource)
    told = _told_expiries(look.acknowledged, resource)
    _check_renewals(look.acknowledged, resource, events)
    held = _Held()
    for event in events:
        generation = event.lease_generation
        if event.event_type == CLAIMED or generation == held.generation + 1:
            _follow_claim(held, event, told)
        elif generation is not None:
            _follow_owned(held, event, told)
    _check_row(look, resource, held, told)
    _check_answered(look.acknowledged, resource, events)


def claims_of(look: Look, resource: ResourceId) -> list[tuple[str, Claim]]:
    """Return each answered claim of a resource with the actor that got it, oldest answer first."""
    return [
        (known.actor, known.result)
        for known in look.acknowledged
        if isinstance(known.result, Claim) and known.result.resource_id == resource
    ]


def _follow_claim(held: _Held, event: EventRow, told: Mapping[int, int]) -> None:
    generation = event.lease_generation
    if generation != held.generation + 1:
        raise PromiseBroken(f"P3: generation {held.generation} is followed by {generation}")
    until = _latest(held, told)
    if until is not None and event.recorded_at < until:
        early_ms = until - event.recorded_at
        raise PromiseBroken(f"P3: generation {generation} was given out {early_ms} ms too early")
    held.generation = generation
    held.inline_at = None if event.event_type == CLAIMED else event.recorded_at
    is_inline = held.inline_at is not None
    held.until = None if is_inline else event.recorded_at + CLAIM_MS[OwnerType.HOST]


def _follow_owned(held: _Held, event: EventRow, told: Mapping[int, int]) -> None:
    what = f"{event.event_type} under generation {event.lease_generation}"
    if event.lease_generation != held.generation:
        raise PromiseBroken(f"P4: {what}, while {held.generation} is the newest")
    if held.until is None:
        if held.inline_at != event.recorded_at:
            raise PromiseBroken(f"P4: {what}, which has been released")
        return
    # An owner may say at any time that it is done.
    if event.event_type != RELEASED and event.recorded_at >= (_latest(held, told) or 0):
        raise PromiseBroken(f"P4: {what}, which has expired")
    if event.event_type in _FREEING:
        held.until, held.inline_at = None, event.recorded_at
    else:
        held.until = max(held.until, event.recorded_at + CLAIM_MS[OwnerType.HOST])


def _latest(held: _Held, told: Mapping[int, int]) -> int | None:
    """Return the latest expiry of the generation that anybody was told; None while it is free."""
    return None if held.until is None else max(held.until, told.get(held.generation, 0))


def _check_row(look: Look, resource: ResourceId, held: _Held, told: Mapping[int, int]) -> None:
    row = holding(look.reading, resource)
    if row.generation != held.generation:
        raise PromiseBroken(
            f"P3: the lease has generation {row.generation}, not {held.generation}"
        )
    if (row.expires_at is None) != (held.until is None):
        raise PromiseBroken("P3: the events do not say whether the lease is free")
    until = _latest(held, told)
    if row.expires_at is not None and until is not None and row.expires_at < until:
        raise PromiseBroken(
            f"P3: the lease expires {until - row.expires_at} ms earlier than its owner was told"
        )


def _told_expiries(acknowledged: list[Acknowledged], resource: ResourceId) -> dict[int, int]:
    """Return the latest expiry that a renewal was answered, by generation."""
    told: dict[int, int] = defaultdict(int)
    generation: dict[str, int] = {}
    for known in acknowledged:
        if isinstance(known.result, Claim) and known.result.resource_id == resource:
            generation[known.actor] = known.result.generation
        elif known.point == "renew" and known.actor in generation:
            assert isinstance(known.result, int)
            told[generation[known.actor]] = max(told[generation[known.actor]], known.result)
    return told


def _check_renewals(
    acknowledged: list[Acknowledged], resource: ResourceId, events: list[EventRow]
) -> None:
    """Nobody is told of a lease beyond the instant at which his successor was told of it."""
    given_at = {e.lease_generation: e.recorded_at for e in events if e.event_type == CLAIMED}
    generation: dict[str, int] = {}
    newest = 0
    for known in acknowledged:
        if isinstance(known.result, Claim) and known.result.resource_id == resource:
            generation[known.actor] = known.result.generation
            newest = max(newest, known.result.generation)
        elif known.point == "renew" and generation.get(known.actor, newest) < newest:
            assert isinstance(known.result, int)
            if newest in given_at and known.result > given_at[newest]:
                own = generation[known.actor]
                raise PromiseBroken(f"P4: generation {own} was renewed after {newest} was given")


def _check_answered(
    acknowledged: list[Acknowledged], resource: ResourceId, events: list[EventRow]
) -> None:
    """Everything that was answered as done is in the events, under its generation."""
    recorded = {(event.event_type, event.lease_generation) for event in events}
    written = {(event.resource_revision, event.lease_generation) for event in events}
    generation: dict[str, int] = {}
    for known in acknowledged:
        claim = known.result
        if isinstance(claim, Claim) and claim.resource_id == resource:
            generation[known.actor] = claim.generation
            there = (CLAIMED, claim.generation) in recorded
        elif known.actor not in generation:
            continue
        elif known.point == "write":
            there = (known.result, generation[known.actor]) in written
        else:
            there = known.point != "release" or (RELEASED, generation[known.actor]) in recorded
        if not there:
            raise PromiseBroken(f"P1: the {known.point} of {known.actor} was answered and is gone")
