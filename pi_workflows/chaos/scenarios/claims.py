"""Who owns a leased resource, whoever asks for it at the same time."""

from contextlib import suppress
from dataclasses import dataclass

from pi_workflows.chaos.lease_history import RELEASED, check_lease, claims_of
from pi_workflows.chaos.scene import Command, Look, Me, Scene, scenario
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import OwnerType
from runtime.chaos.outcome import PromiseBroken
from store import leases
from store.authority import CLAIM_MS, Claim, holding
from store.errors import ClaimLost, ClaimLostError, LeaseHeldError, Rejected, StateBusyError
from store.leases import Owner
from store.transaction import Transaction

WORK = "work.done"


@scenario(promises=("P3", "P4"), engines=("orders", "crash"), core=True)
def one_winner(s: Scene) -> None:
    """Three workers ask for one job, twice each, while the clock jumps past the expiry, twice.

    What its cuts leave of the log after an unclean stop is copied aside before it is read.

    Case: A31, C52, D14.
    """
    job = s.resource("job")

    @s.actor(count=3)
    async def worker(me: Me) -> None:
        claim = await me.claim(job) or await me.claim(job)
        if claim is not None:
            await me.write(claim, WORK)
            await me.release(claim)

    s.faults(clock_jump=(31.0, 31.0))

    @s.always
    def leased(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def somebody_had_it(look: Look) -> None:
        assert claims_of(look, job), "P3: nobody got a job that was free"


@scenario(promises=("P2", "P3"), engines=("procs", "orders", "crash"), core=True)
def first_come(s: Scene) -> None:
    """Three workers claim one job at the same instant.

    Case: A30.
    """
    job = s.resource("job")

    @s.actor(count=3)
    async def worker(me: Me) -> None:
        try:
            await me.claim(job)
        except StateBusyError as busy:
            raise PromiseBroken("P2: a command failed because of another one") from busy

    s.faults(kill=1)

    @s.always
    def leased(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def one_has_it(look: Look) -> None:
        assert len(claims_of(look, job)) <= 1, "P3: two were told that they have it"
        assert look.events(job), "P3: nobody got a job that was free"


def _renewing(claim: Claim) -> Command[int]:
    """Renew a claim; whoever has it and is in time is not refused."""

    def command(tx: Transaction) -> int:
        held = holding(tx, claim.resource_id)
        in_time = held.expires_at is not None and tx.now < held.expires_at
        try:
            return leases.renew_claim(tx, claim)
        except ClaimLostError:
            if in_time and held.generation == claim.generation:
                raise PromiseBroken("P3: the renewal of a live claim was refused") from None
            raise

    return command


@scenario(promises=("P3", "P4"))
def renewed_and_reclaimed(s: Scene) -> None:
    """An owner keeps its job by renewing it, or loses it to the next one."""
    job = s.resource("job")

    async def renew(me: Me, claim: Claim) -> bool:
        return await me.unless_lost(_renewing(claim), "renew", claim=claim)

    @s.actor(count=2)
    async def owner(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None and await renew(me, claim) and await me.write(claim, WORK):
            await renew(me, claim)
            await me.release(claim)

    s.faults(clock_jump=(20.0, 20.0), kill=1)

    @s.always
    def leased(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def somebody_had_it(look: Look) -> None:
        assert look.events(job), "P3: nobody got a job that was free"


@scenario(promises=("P3", "P4"))
def released_too_late(s: Scene) -> None:
    """An owner says that it is done when its lease has lapsed, and perhaps is another's.

    Case: A31.
    """
    job = s.resource("job")

    @s.actor(count=3)
    async def owner(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.sync("late")
            await me.release(claim)

    s.faults(clock_jump=(31.0,))

    @s.always
    def leased(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def kept_by_its_last_owner(look: Look) -> None:
        given = [claim.generation for _, claim in claims_of(look, job)]
        released = [known for known in look.acknowledged if known.point == "release"]
        row = holding(look.reading, job)
        assert row.generation == max(given), "P3: a release has changed the generation"
        assert len(released) >= 1, "P3: the last owner could not give its job up"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a claim was said to be lost, and why it is by what the row says; None if it counts."""

    given: ClaimLost | None
    expected: ClaimLost | None


def _asking_why(claim: Claim) -> Command[Reason]:
    """Ask for the claim of an owner id that nobody else has."""

    def command(tx: Transaction) -> Reason:
        held = holding(tx, claim.resource_id)
        expected = None
        if held.generation != claim.generation:
            expected = ClaimLost.TOKEN_CHANGED
        elif held.expires_at is None or held.expires_at <= tx.now:
            expected = ClaimLost.EXPIRED
        return Reason(leases.loss(tx, claim), expected)

    return command


@scenario(promises=("P3", "P4"))
def same_owner_again(s: Scene) -> None:
    """One owner id claims twice: the id proves nothing, only the secret of the claim does.

    Case: A35.
    """
    job = s.resource("job")

    @s.actor(count=2)
    async def server(me: Me) -> None:
        claim = await me.claim(job, owner_id="server-1")
        if claim is not None:
            await me.do(_asking_why(claim), point="ask")
            await me.write(claim, WORK)

    s.faults(clock_jump=(31.0,))

    @s.always
    def leased(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def told_why(look: Look) -> None:
        for known in look.acknowledged:
            if isinstance(known.result, Reason):
                told = known.result
                assert told.given == told.expected, f"P4: told {told.given}, not {told.expected}"
        given = [claim.token for _, claim in claims_of(look, job)]
        assert len(set(given)) == len(given), "P3: a secret was given out twice"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a challenger found, and what it was given."""

    now: int
    expires_at: int | None
    claim: Claim | None


def _asking(job: ResourceId, owner_id: str) -> Command[Asked]:
    def command(tx: Transaction) -> Asked:
        expires_at = holding(tx, job).expires_at
        try:
            with tx.nested():
                owner = Owner(OwnerType.HOST, owner_id)
                claim = leases.claim(tx, leases.host_permit(owner_id), job, owner)
        except LeaseHeldError:
            return Asked(tx.now, expires_at, None)
        return Asked(tx.now, expires_at, claim)

    return command


@scenario(promises=("P3", "P4"))
def at_the_instant_of_expiry(s: Scene) -> None:
    """A challenger asks one millisecond before the expiry, or exactly at it.

    Case: A37.
    """
    job = s.resource("job")

    @s.actor()
    async def holder(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.write(claim, WORK)

    @s.actor(count=2)
    async def challenger(me: Me) -> None:
        await me.do(_asking(job, me.name), point="challenge")

    s.faults(clock_jump=(29.999, 0.001))

    @s.always
    def leased(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def to_the_millisecond(look: Look) -> None:
        for known in look.acknowledged:
            if isinstance(known.result, Asked):
                asked = known.result
                lapsed = asked.expires_at is None or asked.expires_at <= asked.now
                assert lapsed == (asked.claim is not None), "P3: the expiry is another instant"


def _refused_after_writing(claim: Claim) -> Command[object]:
    def command(tx: Transaction) -> object:
        leases.write(tx, claim, WORK)
        raise Rejected("refused on purpose")

    return command


@scenario(promises=("P2", "P3"))
def refused_write_extends_nothing(s: Scene) -> None:
    """Owners write, which extends their leases, or are refused after it, which does not.

    Case: A39.
    """
    jobs = [s.resource(f"job-{number}") for number in range(2)]

    @s.actor(count=len(jobs))
    async def owner(me: Me) -> None:
        claim = await me.claim(jobs[me.number])
        if claim is not None:
            with suppress(Rejected):
                await me.do(_refused_after_writing(claim), point="write in vain")
            await me.write(claim, WORK)

    s.faults(clock_jump=(29.0,), shared_batch=1)

    @s.always
    def extended_by_what_is_written(look: Look) -> None:
        for job in jobs:
            check_lease(look, job)
            last = look.events(job)[-1:]
            owned = bool(last) and last[0].event_type != RELEASED
            expected = last[0].recorded_at + CLAIM_MS[OwnerType.HOST] if owned else None
            expires_at = holding(look.reading, job).expires_at
            assert expires_at == expected, f"P3: the lease expires at {expires_at}, not {expected}"
