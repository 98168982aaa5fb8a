"""What somebody still tries who has been replaced: everything is refused, and nothing changes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pi_workflows.chaos.courier import ACT, FETCH, Courier, Runner
from pi_workflows.chaos.effect_scenes import acting, check_outbox
from pi_workflows.chaos.forgeries import GENUINE, Told, check_reason, forgeries, writing
from pi_workflows.chaos.lease_history import CLAIMED, RELEASED, check_lease, claims_of
from pi_workflows.chaos.run_looks import check_run, run_row
from pi_workflows.chaos.run_scenes import leave, served, take_over, tell
from pi_workflows.chaos.scene import Command, Look, Me, Scene, scenario
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import RecoveryKind, StepOutcome, WorkerMessageOutcome
from store import host, leases, run_history, run_messages
from store.authority import Claim, holding
from store.errors import ClaimLostError, EpochLost, HostHeldError
from store.host import HostClaim, HostProcess
from store.run_messages import Answered
from store.transaction import Transaction

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

WORK: Final = "work.done"


@scenario(promises=("P3", "P4"))
def thawed_holder(s: Scene) -> None:
    """An owner stands still for a minute, then renews, writes and releases as if nothing was."""
    job = s.resource("job")

    @s.actor()
    async def frozen(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.renew(claim)
            await me.write(claim, WORK)
            await me.release(claim)

    @s.actor()
    async def successor(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.write(claim, WORK)

    s.faults(clock_jump=(60.0,), pause=1)

    @s.always
    def fenced(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def somebody_worked(look: Look) -> None:
        assert look.events(job, CLAIMED), "P3: nobody got a job that was free"


def _renewing(claim: Claim) -> Command[bool]:
    """Renew, and say whether that was right by what the row had said before."""

    def command(tx: Transaction) -> bool:
        expires_at = holding(tx, claim.resource_id).expires_at
        leases.renew_claim(tx, claim)
        return expires_at is not None and expires_at > tx.now

    return command


@scenario(promises=("P3", "P4"))
def frozen_past_its_expiry(s: Scene) -> None:
    """A server stands still until a minute after its claim, then does all that its run allows."""
    going = acting(s, RecoveryKind.IDEMPOTENT)
    old, run = going.runner, going.run

    @s.actor()
    async def frozen(me: Me) -> None:
        await me.unless_lost(_renewing(old.claim), "hold")
        await tell(me, old, old.settles(number=1))
        await tell(me, old, old.finishes(old.starts(ACT)), old.completes())
        await leave(me, old)

    @s.actor()
    async def successor(me: Me) -> None:
        await take_over(me, run)

    s.faults(clock_jump=(90.0,), pause=1)

    @s.always
    def fenced(look: Look) -> None:
        check_outbox(look, going)

    @s.finally_
    def nothing_under_an_old_claim(look: Look) -> None:
        held = [known.result for known in look.acknowledged if known.point == "hold"]
        assert all(held), "P4: a lease was renewed that had expired"
        replaced = len(look.events(run.resource, CLAIMED)) > 1
        assert not (replaced and run_row(look, run).terminal), "P4: ended by who was replaced"


@scenario(promises=("P4",))
def lapsed_owner_can_only_release(s: Scene) -> None:
    """A lease lapses that nobody else wants: its owner may give it up, and nothing else.

    Case: A37, A38, C50.
    """
    job = s.resource("job")

    @s.actor()
    async def owner(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.unless_lost(_renewing(claim), "hold")
            await me.write(claim, WORK)
            await me.release(claim)

    s.faults(clock_jump=(30.0, 60.0))

    @s.always
    def fenced(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def released_by_its_owner(look: Look) -> None:
        held = [known.result for known in look.acknowledged if known.point == "hold"]
        assert all(held), "P4: a lease was renewed that had expired"
        assert look.events(job, RELEASED), "P3: an owner could not give its job up"


def _require_no_secret(look: Look, job: ResourceId) -> None:
    """No byte of the database shows the secret of a claim that was given out."""
    stored = look.reading.connection.serialize("main")
    for _, claim in claims_of(look, job):
        assert claim.token.encode() not in stored, "P4: the secret of a claim is stored"


@scenario(promises=("P4",))
def told_why_it_is_lost(s: Scene) -> None:
    """Missing, forged, borrowed and outdated claims are told apart, and none of them writes.

    Neither what is stored nor what a refused caller is told holds the secret of a claim.

    Case: A33, A34, A36, A40, C51.
    """
    job, other = s.resource("job"), s.resource("other")

    @s.actor()
    async def owner(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            for kind, shown in forgeries(claim, other).items():
                await me.do(writing(kind, claim, shown), point=f"write, {kind}")
            await me.do(writing(GENUINE, claim, claim), point="write")

    @s.actor()
    async def successor(me: Me) -> None:
        await me.claim(job)

    s.faults(clock_jump=(31.0,))

    @s.finally_
    def each_for_its_reason(look: Look) -> None:
        assert not look.events(other), "P4: the claim of one resource has written to another"
        _require_no_secret(look, job)
        for known in look.acknowledged:
            if isinstance(known.result, Told):
                check_reason(known.result, known.actor)


@dataclass(frozen=True, slots=True)
class Heard:
    """What a child was told that proposes what nobody may: its claim is lost, or it is refused."""

    was_owner: bool
    is_lost: bool


def _saying_nonsense(runner: Runner) -> Command[Heard]:
    """End a run whose last node nobody has begun."""
    message = runner.message(runner.completes(), message_id="nonsense")

    def command(tx: Transaction) -> Heard:
        held = holding(tx, runner.run.resource)
        live = held.expires_at is not None and held.expires_at > tx.now
        was_owner = live and held.generation == runner.claim.generation
        try:
            with tx.nested():
                run_messages.advance_once(tx, runner.permit, message)
        except ClaimLostError:
            return Heard(was_owner, is_lost=True)
        return Heard(was_owner, is_lost=False)

    return command


def _require_same_answer(told: Answered | None, again: Answered | None) -> None:
    """A repeat is answered as before, also when its sender has lost the run meanwhile."""
    if told is None:
        assert again is None, "P4: a message was heard that had been turned away"
        return
    assert told.outcome is WorkerMessageOutcome.ACCEPTED, f"P2: refused: {told.error}"
    expected = Answered(WorkerMessageOutcome.ADOPTED, told.revision, told.result)
    assert again == expected, f"P6: a repeat was told {again}, not {expected}"


def _require_refused(told: Answered | None, other: Answered | None) -> None:
    """Another message under a used id is refused, for this reason and no other."""
    if told is None:
        assert other is None, "P4: a message was heard of a child that had been turned away"
        return
    assert other is not None, "P6: a used id was not looked at"
    outcome, said = other.outcome, other.error
    is_right = outcome is WorkerMessageOutcome.REJECTED and said == run_messages.OTHER_MESSAGE
    assert is_right, f"P6: another message under a used id was told {outcome}: {said}"
    assert not other.result, "P6: a refusal has a result"


def _require_no_failure(look: Look, run: Courier) -> None:
    """To lose a claim is no failure: neither an event nor a step of the run says so."""
    assert not look.events(run.resource, "node_failed"), "P4: losing a claim is a failure"
    steps = run_history.page(look.reading, run.run_id, run.definition, 0).steps
    outcomes = {cast("JsonObject", step)["outcome"] for step in steps}
    assert outcomes <= {StepOutcome.OK}, "P4: losing a claim is a failed step"


@scenario(promises=("P3", "P4", "P6"))
def late_words_of_an_old_child(s: Scene) -> None:
    """Messages of a child arrive when another one serves the run, or arrive twice, or changed.

    A repeat is answered as before, another message under its id is refused, and to lose the run
    is no failure of it.

    Case: A42, C33, C34, C54.
    """
    old = served(s)
    run = old.run

    @s.actor()
    async def late(me: Me) -> None:
        start = old.starts(FETCH)
        told = await tell(me, old, start, message_id="first")
        then = await tell(me, old, old.finishes(start), message_id="second")
        _require_same_answer(told, await tell(me, old, start, message_id="first"))
        _require_refused(then, await tell(me, old, old.starts(ACT), message_id="second"))
        _require_same_answer(then, await tell(me, old, old.finishes(start), message_id="second"))
        await me.do(_saying_nonsense(old), point="say nonsense")

    @s.actor()
    async def successor(me: Me) -> None:
        new = await take_over(me, run)
        if new is not None:
            start = new.starts(FETCH)
            await tell(me, new, start, new.finishes(start))

    s.faults(clock_jump=(31.0,))

    @s.always
    def fenced(look: Look) -> None:
        check_run(look, run)

    @s.finally_
    def done_once(look: Look) -> None:
        finished = look.events(run.resource, "node_finished")
        assert len(finished) <= 1, "P4: a node was recorded twice"
        begun = look.events(run.resource, "node_started")
        tries = {event.lease_generation for event in begun}
        assert len(begun) == len(tries), "P6: what was said twice was done twice"
        assert not run_row(look, run).terminal, "P4: losing a claim has ended the run"
        _require_no_failure(look, run)
        heard = [known.result for known in look.acknowledged]
        for one in heard:
            if isinstance(one, Heard):
                assert one.is_lost != one.was_owner, "P4: an old child's words were looked at"


@dataclass(frozen=True, slots=True)
class Beat:
    """A sign of life of a server.

    Attributes:
        epoch: its own.
        serving: of the server that serves; None when none does.
        lives: whether its claim is live afterwards; False also when it was refused.
    """

    epoch: int
    serving: int | None
    lives: bool


def _beating(claim: HostClaim) -> Command[Beat]:
    """Write as a server does, behind its fence, even after its claim has expired."""

    def command(tx: Transaction) -> Beat:
        row = host.current(tx)
        serving = None if row.host_id is None else row.epoch
        try:
            host.check_fence(tx.connection, claim)
        except EpochLost:
            return Beat(claim.epoch, serving, lives=False)
        host.heartbeat(tx, claim)
        expires_at = host.current(tx).expires_at
        return Beat(claim.epoch, serving, lives=expires_at is not None and expires_at > tx.now)

    return command


def _stopping(claim: HostClaim) -> Command[object]:
    def command(tx: Transaction) -> object:
        host.check_fence(tx.connection, claim)
        host.release(tx, claim)
        return None

    return command


def _nobody_serves(tx: Transaction) -> object:
    process = HostProcess("server-before", 1, "before")
    host.release(tx, host.acquire(tx, process, holder_gone=True))
    return None


@dataclass(frozen=True, slots=True)
class Started:
    """A server's claim, and whether somebody else's was live when it got it."""

    claim: HostClaim
    was_live: bool


def _starting(process: HostProcess) -> Command[Started]:
    def command(tx: Transaction) -> Started:
        expires_at = host.current(tx).expires_at
        claim = host.acquire(tx, process, holder_gone=False)
        return Started(claim, expires_at is not None and expires_at > tx.now)

    return command


@scenario(promises=("P3", "P4"))
def two_servers(s: Scene) -> None:
    """Two servers want the database; one stands still, is replaced, and goes on.

    Case: C4, C5, D14.
    """
    s.prepare(_nobody_serves)

    @s.actor(count=2)
    async def server(me: Me) -> None:
        process = HostProcess(me.name, 100 + me.number, me.name)
        try:
            started = await me.do(_starting(process), point="start")
            await me.do(_beating(started.claim), point="beat")
            await me.do(_stopping(started.claim), point="stop")
            await me.do(_beating(started.claim), point="beat")
        except (HostHeldError, EpochLost):
            return

    s.faults(clock_jump=(60.0,))

    @s.always
    def one_serves(look: Look) -> None:
        for known in look.acknowledged:
            if isinstance(known.result, Beat):
                beat = known.result
                serves = beat.epoch == beat.serving
                assert serves or not beat.lives, "P4: a replaced server has written"
                assert beat.lives or not serves, "P3: a server that nobody replaced has ended"

    @s.finally_
    def epochs_rise(look: Look) -> None:
        told = [known.result for known in look.acknowledged]
        started = [one for one in told if isinstance(one, Started)]
        epochs = sorted(one.claim.epoch for one in started)
        assert epochs == list(range(epochs[0], epochs[0] + len(epochs))), "P3: epochs have a gap"
        assert host.current(look.reading).epoch == epochs[-1], "P3: the newest does not serve"
        assert not any(one.was_live for one in started), "P3: a live server was replaced"
