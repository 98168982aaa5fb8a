"""Operators stop runs, let them go on and start them again while everybody else is at them."""

from typing import Final

from pi_workflows.chaos.courier import CONTROL, FETCH, Courier
from pi_workflows.chaos.effect_scenes import Errand, act, arrivals, check_outbox, errand
from pi_workflows.chaos.lease_history import CLAIMED
from pi_workflows.chaos.run_looks import check_run, queue_row, run_row
from pi_workflows.chaos.run_scenes import (
    cancel,
    queued,
    resume,
    say_again,
    serve,
    served,
    take_over,
    tell,
)
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.states import ActorType, QueueStatus, RecoveryKind, RunStatus
from runtime.chaos.outcome import PromiseBroken
from store import runs
from store.authority import Claim, Permit, holding
from store.errors import ClaimLostError, StaleResourceError
from store.resources import Actor
from store.run_pausing import PauseReply, pause_run
from store.run_restarting import RestartReply, RunNotEndedError, restart_run
from store.run_resuming import RunEndedError

LAPSED_S: Final = 31.0
PAUSED: Final = "run.paused"
RESUMED: Final = "run.resume_requested"
_PATIENCE: Final = 5
"""More often than anybody else can take the run meanwhile."""

_STANDING: Final = frozenset({QueueStatus.QUEUED, QueueStatus.PARKED})
_MOVES: Final = frozenset({CLAIMED, "node_started", "node_finished", "node_failed"})


async def pause(me: Me, run: Courier, claim: Claim | None = None) -> PauseReply | None:
    """Pause a run as an operator does, again if no answer comes.

    Returns:
        None when it has ended, or is owned and `claim` is not its claim.
    """
    permit = Permit(Actor(ActorType.CONTROL), claim)
    refusals = (RunEndedError, ClaimLostError)
    return await say_again(me, lambda tx: pause_run(tx, permit, run.run_id), "pause", refusals)


async def restart(me: Me, run: Courier, revision: int) -> RestartReply | None:
    """Restart a run at this revision, again if no answer comes; None when it may not be."""
    permit = Permit(CONTROL.actor, None, revision)
    refusals = (StaleResourceError, RunNotEndedError)
    return await say_again(me, lambda tx: restart_run(tx, permit, run.run_id), "restart", refusals)


def check_pause(look: Look, run: Courier) -> None:
    """Hold a run to what a pause promises: at once nobody has it, and nothing of it moves.

    Raises:
        PromiseBroken: names the promise.
    """
    check_run(look, run)
    row, stands = run_row(look, run), False
    for event in look.events(run.resource):
        stands = event.event_type == PAUSED or (stands and event.event_type != RESUMED)
        if stands and event.event_type in _MOVES:
            raise PromiseBroken(f"P4: {event.event_type} while the run is paused")
    if bool(row.paused) != (stands and not row.terminal):
        raise PromiseBroken(f"P2: the run says paused={row.paused}, its events do not")
    if not row.paused:
        return
    if queue_row(look, run).status not in _STANDING:
        raise PromiseBroken("P2: the run is paused and in somebody's hands")
    if holding(look.reading, run.resource).owner_type is not None:
        raise PromiseBroken("P3: the run is paused and its lease is not free")


def _paused_truly(look: Look, run: Courier) -> None:
    """Whoever was told that he paused the run did."""
    told = [known.result for known in look.acknowledged]
    acted = [one for one in told if isinstance(one, PauseReply) and not one.adopted]
    made = len(look.events(run.resource, PAUSED))
    assert len(acted) <= made, f"P6: {len(acted)} were told that they paused it, {made} did"


async def _see_through(me: Me, going: Errand) -> None:
    """Resume a run and serve it until it has ended; whoever has it meanwhile gets his time."""
    run_id = going.run.run_id
    for _ in range(_PATIENCE):
        await resume(me, going.run)
        new = await take_over(me, going.run)
        if new is not None:
            await act(me, going, new)
        if await me.read(lambda reading: runs.require(reading, run_id).terminal):
            return
        await me.sleep(LAPSED_S)


@scenario(promises=("P2", "P4", "P5", "P8"))
def paused_or_recorded(s: Scene) -> None:
    """A run is paused while its runner records and acts; resumed, it goes on to its end."""
    going = errand(s, RecoveryKind.IDEMPOTENT)
    run = going.run

    @s.actor()
    async def runner(me: Me) -> None:
        await act(me, going, going.runner)

    @s.actor()
    async def its_server(me: Me) -> None:
        await pause(me, run, going.runner.claim)
        await _see_through(me, going)

    @s.actor()
    async def operator(me: Me) -> None:
        await resume(me, run)
        new = await serve(me, run)
        if new is not None:
            await act(me, going, new)

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def stands(look: Look) -> None:
        check_outbox(look, going)
        check_pause(look, run)

    @s.finally_
    def goes_on_to_its_end(look: Look) -> None:
        _paused_truly(look, run)
        row = run_row(look, run)
        assert row.status is RunStatus.COMPLETED, f"P8: the run was resumed and is {row.status}"
        assert arrivals(look, going), "P5: a run ended whose mail is missing"


@scenario(promises=("P3", "P4"))
def paused_or_claimed(s: Scene) -> None:
    """Two operators pause a queued run that a server claims, one resumes it."""
    run = queued(s)

    @s.actor()
    async def server(me: Me) -> None:
        new = await serve(me, run)
        if new is not None:
            start = new.starts(FETCH)
            await tell(me, new, start)
            await pause(me, run, new.claim)
            await tell(me, new, new.finishes(start))

    @s.actor(count=2)
    async def operator(me: Me) -> None:
        await pause(me, run)

    @s.actor()
    async def colleague(me: Me) -> None:
        await resume(me, run)

    s.faults(drop=1)

    @s.always
    def stands(look: Look) -> None:
        check_pause(look, run)

    @s.finally_
    def told_truly(look: Look) -> None:
        _paused_truly(look, run)


@scenario(promises=("P2", "P3"))
def paused_or_cancelled(s: Scene) -> None:
    """A run that is served is paused, resumed and cancelled at once; its end is final."""
    old = served(s)
    run = old.run

    @s.actor()
    async def its_server(me: Me) -> None:
        await pause(me, run, old.claim)
        await cancel(me, run) or await cancel(me, run, old.claim)

    @s.actor()
    async def operator(me: Me) -> None:
        await pause(me, run)
        await resume(me, run)

    @s.actor()
    async def runner(me: Me) -> None:
        start = old.starts(FETCH)
        await tell(me, old, start)
        await tell(me, old, old.finishes(start))

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def stands(look: Look) -> None:
        check_pause(look, run)

    @s.finally_
    def cancelled(look: Look) -> None:
        _paused_truly(look, run)
        assert run_row(look, run).status is RunStatus.CANCELLED, "P6: a cancel was not heard"


@scenario(promises=("P2", "P6"))
def restarted_once(s: Scene) -> None:
    """A run is cancelled while operators restart it, each at the revision that he sees."""
    run = queued(s)

    @s.actor()
    async def colleague(me: Me) -> None:
        await cancel(me, run)

    @s.actor(count=2)
    async def operator(me: Me) -> None:
        for _ in range(2):
            seen = await me.read(lambda reading: holding(reading, run.resource).revision)
            await restart(me, run, seen)

    s.faults(drop=1)

    @s.always
    def proper(look: Look) -> None:
        check_run(look, run)
        told = [known.result for known in look.acknowledged]
        children = [one for one in told if isinstance(one, RestartReply)]
        assert not children or run_row(look, run).terminal, "P2: a live run was restarted"
        assert len({one.run.run_id for one in children}) <= 1, "P6: a run has two restarts"
        made = [one for one in children if not one.adopted]
        assert len(made) <= 1, "P6: two were told that they restarted the run"
