"""An outside for scenarios that can be looked at, and the ways of a runner with its effect.

The outside is a resource of the same store: what arrives there is an event that stays, whoever
dies, and arrives apart from every commit of the run.
"""

from dataclasses import dataclass
from typing import Final

from pi_workflows.chaos.courier import ACT, CONTROL, FETCH, Courier, Runner
from pi_workflows.chaos.run_looks import check_run, effect_row, queue_row
from pi_workflows.chaos.run_scenes import say_again, served, tell
from pi_workflows.chaos.scene import Command, Look, Me, Scene
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import EffectStatus, OwnerType, QueueStatus, RecoveryKind
from runtime.chaos.outcome import PromiseBroken
from store import leases, run_messages, run_parking
from store.effect_errors import EffectNotAmbiguousError, EffectSettledError, RetryRefusedError
from store.effect_resolving import Resolution, Resolved, Verb, resolve_effect
from store.errors import ClaimLostError
from store.event_log import events_of
from store.leases import Owner
from store.proposals import Granted, Transition
from store.transaction import Transaction

ARRIVED: Final = "mail.arrived"
APPLIED: Final = "effect.applied"
RESOLVED: Final = frozenset({APPLIED, "effect.rejected", "effect.retry_ready"})


@dataclass(frozen=True, slots=True)
class Errand:
    """A run whose next node acts on an outside.

    Attributes:
        runner: that serves it, under a claim that is live at the beginning.
        box: the outside.
    """

    runner: Runner
    box: ResourceId

    @property
    def run(self) -> Courier:
        """The run."""
        return self.runner.run


def errand(s: Scene, kind: RecoveryKind) -> Errand:
    """Prepare a run in service that has fetched and is to act."""
    runner = served(s, recovery_kind=kind)
    start = runner.starts(FETCH)
    s.prepare(_said(runner, start, runner.finishes(start)))
    return Errand(runner, s.resource("mailbox"))


def acting(s: Scene, kind: RecoveryKind) -> Errand:
    """Prepare a run in service that has reserved its effect: it may be acting now."""
    begun = errand(s, kind)
    start = begun.runner.starts(ACT)
    s.prepare(_said(begun.runner, start, begun.runner.reserves(start)))
    return begun


def ambiguous(s: Scene) -> Errand:
    """Prepare a run that waits for a person, for nobody saw how its effect ended."""
    left = acting(s, RecoveryKind.MANUAL)
    s.prepare(lambda tx: run_parking.hand_back(tx, left.runner.claim, left.run.run_id).status)
    return left


def _said(runner: Runner, *transitions: Transition) -> Command[object]:
    message = runner.message(*transitions)
    return lambda tx: run_messages.advance_once(tx, runner.permit, message)


async def reserve(me: Me, runner: Runner, *, observed: bool = False) -> Granted | None:
    """Start a try of `act` and take its effect; None when the run is not the runner's any more.

    Args:
        observed: a look has found nothing outside; the try is under way already.
    """
    start = runner.starts(ACT)
    taking = runner.reserves(start, observed=observed)
    answer = await tell(me, runner, *([] if observed else [start]), taking)
    if answer is None or answer.advanced is None:
        return None
    return answer.advanced.grants[-1]


async def act(me: Me, errand_: Errand, runner: Runner) -> None:
    """Do what a runner does at `act`: reserve, look or act as it is told, settle, end the run."""
    granted = await reserve(me, runner)
    observed = granted is not None and granted.status == EffectStatus.PENDING
    if observed and not await _is_there(me, errand_):
        granted, observed = await reserve(me, runner, observed=True), False
    if granted is None:
        return
    if granted.status == EffectStatus.APPLYING:
        await _deliver(me, errand_)
    if granted.attempt_number:
        await tell(me, runner, runner.settles(number=granted.attempt_number, observed=observed))
    await tell(me, runner, runner.finishes(runner.starts(ACT)), runner.completes())


async def _deliver(me: Me, errand_: Errand) -> None:
    """Let a mail arrive, in a commit that is not the run's."""

    def command(tx: Transaction) -> object:
        owner = Owner(OwnerType.HOST, me.name)
        permit = leases.host_permit(me.name)
        claim = leases.claim(tx, permit, errand_.box, owner)
        leases.write(tx, claim, ARRIVED)
        leases.release(tx, claim)
        return None

    await me.do(command, point="deliver")


async def _is_there(me: Me, errand_: Errand) -> bool:
    found = await me.read(lambda reading: events_of(reading, errand_.box), point="look")
    return any(event.event_type == ARRIVED for event in found)


async def resolve(me: Me, run: Courier, verb: Verb, reason: str = "I looked") -> Resolved | None:
    """Say as an operator what became of the run's effect; None when something else stands.

    Whoever gets no answer says it again.
    """
    said = Resolution(verb, reason)
    refusals = (ClaimLostError, EffectNotAmbiguousError, EffectSettledError, RetryRefusedError)
    return await say_again(
        me, lambda tx: resolve_effect(tx, CONTROL, run.effect, said), "resolve", refusals
    )


def arrivals(look: Look, errand_: Errand) -> int:
    """Return how many mails have arrived."""
    return len(look.events(errand_.box, ARRIVED))


def words(look: Look, run: Courier) -> list[str]:
    """Return what operators have said of the run's effect, as the events they made."""
    effect = effect_row(look, run)
    if effect is None:
        return []
    return [
        event.event_type
        for event in look.events(effect.resource_id)
        if event.event_type in RESOLVED and event.actor_type == "control"
    ]


def check_outbox(look: Look, errand_: Errand) -> None:
    """Hold a run and its effect to what must be true at any moment.

    Nothing arrives outside that is not recorded as a try before; an effect is applied once; its
    try and its reservation are one commit.

    Raises:
        PromiseBroken: names the promise.
    """
    run = errand_.run
    check_run(look, run)
    effect = effect_row(look, run)
    tries = 0 if effect is None else effect.attempt_count
    if arrivals(look, errand_) > tries:
        raise PromiseBroken(f"P5: {arrivals(look, errand_)} mails arrived, {tries} are recorded")
    if effect is None:
        return
    applied = len(look.events(effect.resource_id, APPLIED))
    if applied != int(effect.status is EffectStatus.APPLIED):
        raise PromiseBroken(f"P5: the effect is {effect.status} and was applied {applied} times")
    # Between the end of a lease and the end of its recovery the queue still says so.
    in_hand = queue_row(look, run).status in {QueueStatus.STARTING, QueueStatus.RUNNING}
    if not in_hand and effect.status is EffectStatus.APPLYING:
        raise PromiseBroken("P8: nobody has the run, and its effect is under way")
    started = len(look.events(run.resource, "node_started"))
    if started < 1 + min(tries, 1):
        raise PromiseBroken("P2: an effect is reserved whose try was not started")
