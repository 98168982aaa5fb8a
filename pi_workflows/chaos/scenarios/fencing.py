"""What somebody still tries who has been replaced: everything is refused, and nothing changes."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.chaos.courier import ACT, FETCH
from pi_workflows.chaos.forgeries import GENUINE, Told, check_reason, forgeries, writing
from pi_workflows.chaos.lease_history import CLAIMED, RELEASED, check_lease
from pi_workflows.chaos.run_looks import check_run, run_row
from pi_workflows.chaos.run_scenes import served, take_over, tell
from pi_workflows.chaos.scene import Command, Look, Me, Scene, scenario
from store import host, leases
from store.authority import Claim, holding
from store.errors import EpochLost, HostHeldError
from store.host import HostClaim, HostProcess
from store.transaction import Transaction

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


@scenario(promises=("P4",))
def lapsed_owner_can_only_release(s: Scene) -> None:
    """A lease lapses that nobody else wants: its owner may give it up, and nothing else."""
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


@scenario(promises=("P4",))
def told_why_it_is_lost(s: Scene) -> None:
    """Missing, forged, borrowed and outdated claims are told apart, and none of them writes."""
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
        for known in look.acknowledged:
            if isinstance(known.result, Told):
                check_reason(known.result, known.actor)


@scenario(promises=("P3", "P4"))
def late_words_of_an_old_child(s: Scene) -> None:
    """Messages of a child arrive when another one serves the run, or says the same."""
    old = served(s)
    run = old.run

    @s.actor()
    async def late(me: Me) -> None:
        start = old.starts(FETCH)
        await tell(me, old, start, message_id="first")
        await tell(me, old, old.finishes(start), message_id="second")
        await tell(me, old, start, message_id="first")
        await tell(me, old, old.starts(ACT), message_id="second")

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


@dataclass(frozen=True, slots=True)
class Beat:
    """Which epoch has written, and which one serves."""

    epoch: int
    serving: int


def _beating(claim: HostClaim) -> Command[Beat]:
    """Write as a server does, behind its fence."""

    def command(tx: Transaction) -> Beat:
        host.check_fence(tx.connection, claim)
        serving = host.current(tx).epoch
        host.heartbeat(tx, claim)
        return Beat(claim.epoch, serving)

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
    """Two servers want the database; one stands still, is replaced, and goes on."""
    s.prepare(_nobody_serves)

    @s.actor(count=2)
    async def server(me: Me) -> None:
        process = HostProcess(me.name, 100 + me.number, me.name)
        try:
            started = await me.do(_starting(process), point="start")
            await me.do(_beating(started.claim), point="beat")
            await me.do(_beating(started.claim), point="beat")
        except (HostHeldError, EpochLost):
            return

    s.faults(clock_jump=(60.0, 5.0))

    @s.always
    def one_serves(look: Look) -> None:
        for known in look.acknowledged:
            if isinstance(known.result, Beat):
                beat = known.result
                assert beat.epoch == beat.serving, "P4: a replaced server has written"

    @s.finally_
    def epochs_rise(look: Look) -> None:
        told = [known.result for known in look.acknowledged]
        started = [one for one in told if isinstance(one, Started)]
        epochs = sorted(one.claim.epoch for one in started)
        assert epochs == list(range(epochs[0], epochs[0] + len(epochs))), "P3: epochs have a gap"
        assert host.current(look.reading).epoch == epochs[-1], "P3: the newest does not serve"
        assert not any(one.was_live for one in started), "P3: a live server was replaced"
