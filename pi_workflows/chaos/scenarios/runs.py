"""Everybody who may change a run does so at once: runners, servers, operators, recovery."""

import itertools
from dataclasses import dataclass
from typing import Final

from pi_workflows.chaos.courier import CONTROL, FETCH, Courier
from pi_workflows.chaos.effect_scenes import act, check_outbox, errand
from pi_workflows.chaos.lease_history import CLAIMED
from pi_workflows.chaos.run_looks import check_run, effect_row, queue_row, run_row
from pi_workflows.chaos.run_scenes import (
    cancel,
    launch_in_steps,
    leave,
    queued,
    recovering,
    resume,
    serve,
    served,
    take_over,
    tell,
)
from pi_workflows.chaos.scene import Command, Look, Me, Scene, scenario
from pi_workflows.protocol.states import (
    EffectStatus,
    ParkReason,
    QueueStatus,
    RecoveryKind,
    RunStatus,
)
from store.authority import holding
from store.errors import ClaimLostError
from store.run_cancelling import CancelReply, Verdict, cancel_run
from store.run_parking import Departure, park_run
from store.run_resuming import ResumeReply
from store.transaction import Transaction

LAPSED_S: Final = 31.0
PARKED: Final = "run.queue_parked"


def _told_truly(look: Look, run: Courier) -> None:
    """Whoever cancelled was told who won."""
    row = run_row(look, run)
    told = [known.result for known in look.acknowledged]
    for reply in told:
        if isinstance(reply, CancelReply):
            won = row.status is RunStatus.CANCELLED
            assert (reply.verdict is Verdict.WON) == won, "P6: a cancel was told the wrong winner"
    first = [one for one in told if isinstance(one, CancelReply) and not one.adopted]
    winners = [one for one in first if one.verdict is Verdict.WON]
    assert len(winners) <= 1, "P3: two cancels were told that they ended the run"


@scenario(promises=("P2", "P4", "P6"))
def cancelled_or_finished(s: Scene) -> None:
    """A run reaches its end while its server and an operator cancel it."""
    going = errand(s, RecoveryKind.MANUAL)
    run = going.run

    @s.actor()
    async def runner(me: Me) -> None:
        await act(me, going, going.runner)

    @s.actor()
    async def its_server(me: Me) -> None:
        await cancel(me, run, going.runner.claim)

    @s.actor()
    async def operator(me: Me) -> None:
        await cancel(me, run) or await cancel(me, run)

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)

    @s.finally_
    def one_end(look: Look) -> None:
        assert run_row(look, run).terminal, "P6: a cancel under the run's own claim was not heard"
        _told_truly(look, run)
        effect = effect_row(look, run)
        open_still = {EffectStatus.PENDING, EffectStatus.APPLYING}
        assert effect is None or effect.status not in open_still, "P6: an effect was left open"


@scenario(promises=("P3", "P4"))
def cancelled_or_launched(s: Scene) -> None:
    """An operator cancels a run that a server is just launching a child for."""
    run = queued(s)

    @s.actor()
    async def server(me: Me) -> None:
        await launch_in_steps(me, run)

    @s.actor(count=2)
    async def operator(me: Me) -> None:
        await cancel(me, run)

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def proper(look: Look) -> None:
        check_run(look, run)

    @s.finally_
    def nothing_launched_after_the_end(look: Look) -> None:
        _told_truly(look, run)
        launched = [known for known in look.acknowledged if known.point == "launch"]
        assert all(known.result is False for known in launched), "P4: launched after the end"


@scenario(promises=("P3", "P4"))
def cancelled_or_claimed(s: Scene) -> None:
    """Two servers claim a queued run that an operator cancels."""
    run = queued(s)

    @s.actor(count=2)
    async def server(me: Me) -> None:
        new = await serve(me, run)
        if new is not None:
            await tell(me, new, new.starts(FETCH))

    @s.actor(count=2)
    async def operator(me: Me) -> None:
        await cancel(me, run)

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def proper(look: Look) -> None:
        check_run(look, run)

    @s.finally_
    def one_end(look: Look) -> None:
        _told_truly(look, run)


@dataclass(frozen=True, slots=True)
class Tried:
    """A cancel by somebody without a claim, and whether the run was owned then."""

    was_owned: bool
    is_refused: bool


def _trying_to_cancel(run: Courier) -> Command[Tried]:
    def command(tx: Transaction) -> Tried:
        expires_at = holding(tx, run.resource).expires_at
        was_owned = expires_at is not None and expires_at > tx.now
        try:
            with tx.nested():
                cancel_run(tx, CONTROL, run.run_id, None)
        except ClaimLostError:
            return Tried(was_owned, is_refused=True)
        return Tried(was_owned, is_refused=False)

    return command


@scenario(promises=("P3", "P4"))
def cancelled_without_its_claim(s: Scene) -> None:
    """People without a claim cancel a run: never from under its owner, always after him.

    Case: A41, C57.
    """
    old = served(s)
    run = old.run

    @s.actor()
    async def runner(me: Me) -> None:
        start = old.starts(FETCH)
        await tell(me, old, start)
        await tell(me, old, old.finishes(start))

    @s.actor(count=2)
    async def operator(me: Me) -> None:
        await me.do(_trying_to_cancel(run), point="try to cancel")

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def proper(look: Look) -> None:
        check_run(look, run)

    @s.finally_
    def only_from_nobody(look: Look) -> None:
        for known in look.acknowledged:
            if isinstance(known.result, Tried):
                tried = known.result
                assert tried.is_refused == tried.was_owned, "P4: cancelled under its owner, or not"


@scenario(promises=("P1", "P2", "P8"))
def killed_between_two_steps(s: Scene) -> None:
    """A runner is killed anywhere; successors go on behind the last recorded step, to the end."""
    going = errand(s, RecoveryKind.IDEMPOTENT)
    run = going.run

    @s.actor()
    async def runner(me: Me) -> None:
        await act(me, going, going.runner)

    @s.actor(count=2)
    async def successor(me: Me) -> None:
        for _ in range(2):
            await me.sleep(LAPSED_S)
            new = await take_over(me, run)
            if new is not None:
                await act(me, going, new)

    s.faults(kill=1)

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)

    @s.finally_
    def completed(look: Look) -> None:
        assert run_row(look, run).status is RunStatus.COMPLETED, "P8: the run did not end"


@scenario(promises=("P2", "P4"))
def retried_or_cancelled(s: Scene) -> None:
    """A try fails and another one is due in a minute, when an operator cancels the run."""
    minute: Final = 60_000
    retry = {"attempts": 3, "backoffMs": minute, "factor": 1, "maxBackoffMs": minute}
    old = served(s, retry={**retry, "outcomes": ["failed"]})
    run = old.run

    @s.actor()
    async def runner(me: Me) -> None:
        start = old.starts(FETCH)
        await tell(me, old, start, old.fails(start, retry=True))

    @s.actor(count=2)
    async def server(me: Me) -> None:
        await me.sleep(me.number * 60.0)
        new = await serve(me, run)
        if new is not None:
            start = new.starts(FETCH)
            await tell(me, new, start, new.finishes(start))

    @s.actor()
    async def operator(me: Me) -> None:
        await cancel(me, run)

    s.faults(clock_jump=(60.0,))

    @s.always
    def proper(look: Look) -> None:
        check_run(look, run)
        failed = look.events(run.resource, "node_failed")
        retried = look.events(run.resource, "node_started")[1:]
        for after in retried:
            assert failed, "P2: another try has begun that no failure is the reason of"
            waited_ms = after.recorded_at - failed[0].recorded_at
            assert waited_ms >= minute, f"P2: another try has begun after {waited_ms} ms"

    @s.finally_
    def told_who_won(look: Look) -> None:
        _told_truly(look, run)


@scenario(promises=("P2", "P3"))
def resumed_once(s: Scene) -> None:
    """Two operators resume a run that stands still, one cancels it, and a server takes it."""
    old = served(s)
    run = old.run
    changed = Departure.SOURCE_CHANGED
    s.prepare(lambda tx: park_run(tx, old.permit, run.run_id, changed).status)

    @s.actor(count=2)
    async def operator(me: Me) -> None:
        await resume(me, run)

    @s.actor()
    async def colleague(me: Me) -> None:
        await cancel(me, run)

    @s.actor()
    async def server(me: Me) -> None:
        await serve(me, run) or await serve(me, run)

    s.faults(drop=1)

    @s.always
    def proper(look: Look) -> None:
        check_run(look, run)
        asked = look.events(run.resource, "run.resume_requested")
        assert len(asked) <= 1, "P2: one standstill was resumed twice"
        queue = queue_row(look, run)
        stands = queue.error_code == ParkReason.SOURCE_CHANGED
        assert stands != bool(asked) or run_row(look, run).terminal, "P3: taken while it stands"

    @s.finally_
    def moved_once(look: Look) -> None:
        _told_truly(look, run)
        told = [known.result for known in look.acknowledged]
        moved = [one for one in told if isinstance(one, ResumeReply) and not one.adopted]
        assert len(moved) <= 1, "P6: two were told that they resumed the run"
        statuses = {one.status for one in told if isinstance(one, ResumeReply)}
        assert RunStatus.CANCELLED not in statuses, "P6: a resume after the end was not refused"


@scenario(promises=("P2", "P3"))
def recovered_once(s: Scene) -> None:
    """Two recovery passes meet on one run, while its old runner still speaks."""
    old = served(s)
    run = old.run

    @s.actor()
    async def late(me: Me) -> None:
        start = old.starts(FETCH)
        await tell(me, old, start)
        await tell(me, old, old.finishes(start))

    @s.actor(count=2)
    async def starter(me: Me) -> None:
        await take_over(me, run)

    s.faults(clock_jump=(LAPSED_S,), kill=1)

    @s.always
    def given_up_once(look: Look) -> None:
        check_run(look, run)
        story = [event.event_type for event in look.events(run.resource)]
        owned = [event for event in story if event in {CLAIMED, PARKED}]
        twice = (PARKED, PARKED) in itertools.pairwise(owned)
        assert not twice, "P2: one loss was recovered twice"


@scenario(promises=("P3",))
def handed_back_late(s: Scene) -> None:
    """An owner gives its run up after its lease has lapsed, and perhaps is another's."""
    old = served(s)
    run = old.run

    @s.actor()
    async def owner(me: Me) -> None:
        await leave(me, old)

    @s.actor(count=2)
    async def successor(me: Me) -> None:
        await take_over(me, run)

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def proper(look: Look) -> None:
        check_run(look, run)

    @s.finally_
    def somebody_can_have_it(look: Look) -> None:
        left = [known for known in look.acknowledged if known.point == "leave"]
        status = queue_row(look, run).status
        assert left or status is QueueStatus.RUNNING, "P8: a run has no owner and no next one"


@scenario(promises=("P2", "P3", "P8"), engines=("procs", "crash"))
def many_runs_recovered(s: Scene) -> None:
    """A server starts over 250 runs of a dead one, is killed in the middle, and starts again."""
    runs = [served(s, f"run-{number}") for number in range(250)]

    @s.actor(count=2)
    async def starter(me: Me) -> None:
        await me.sleep(LAPSED_S)
        for first in range(0, len(runs), 64):
            await me.do(recovering([one.run for one in runs[first : first + 64]]), point="recover")

    s.faults(kill=1)

    @s.finally_
    def each_once(look: Look) -> None:
        for one in runs:
            parked = look.events(one.run.resource, PARKED)
            assert len(parked) == 1, f"P2: a run was given up {len(parked)} times"
            assert queue_row(look, one.run).status is QueueStatus.PARKED, "P8: a run is left over"
