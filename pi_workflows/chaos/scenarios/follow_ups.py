"""Follow-ups are queued and taken back while the run that they wait for ends."""

from typing import Final

from pi_workflows.chaos.courier import Courier
from pi_workflows.chaos.run_looks import check_run, run_row
from pi_workflows.chaos.run_scenes import cancel, say_again, served
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.ids import follow_up_id, resource_id
from pi_workflows.protocol.states import ActorType, FollowUpStatus, RunStatus
from runtime.chaos.outcome import PromiseBroken
from store import follow_ups
from store.authority import Permit
from store.blobs import Blob
from store.follow_up_errors import FollowUpOverError
from store.follow_ups import FollowUpReply, FollowUpRow, NewFollowUp
from store.resources import Actor
from store.run_resuming import RunEndedError

PERSON: Final = Permit(Actor(ActorType.HUMAN))
SHARED: Final = "shared"


async def add(me: Me, run: Courier, request_id: str) -> FollowUpReply | None:
    """Queue a follow-up as a person does, again if no answer comes; None after the end."""
    new = _new(run, request_id)
    return await say_again(
        me,
        lambda tx: follow_ups.queue_follow_up(tx, PERSON, new),
        "add a follow-up",
        (RunEndedError,),
    )


async def remove(me: Me, run: Courier, request_id: str) -> FollowUpReply | None:
    """Take a follow-up back as a person does; None when the end of its run was faster."""
    identity = follow_up_id(run.run_id, request_id)
    return await say_again(
        me,
        lambda tx: follow_ups.remove_follow_up(
            tx, PERSON, run.run_id, identity, source=None, reason=None
        ),
        "remove a follow-up",
        (FollowUpOverError,),
    )


def _new(run: Courier, request_id: str) -> NewFollowUp:
    return NewFollowUp(run.run_id, request_id, "person", Blob.of_text(f"do {request_id}"))


def _found(look: Look, run: Courier, *request_ids: str) -> list[FollowUpRow]:
    rows = (
        follow_ups.find(look.reading, run.run_id, follow_up_id(run.run_id, request_id))
        for request_id in request_ids
    )
    return [row for row in rows if row is not None]


def check_follow_ups(look: Look, run: Courier, *request_ids: str) -> None:
    """Hold the follow-ups of these requests to what must be true of them at any moment.

    Raises:
        PromiseBroken: names the promise.
    """
    row, found = run_row(look, run), _found(look, run, *request_ids)
    orders = sorted(one.order_number for one in found)
    if orders != list(range(1, len(found) + 1)):
        raise PromiseBroken(f"P2: the follow-ups have the places {orders}")
    for one in found:
        events = look.events(resource_id("follow_up", one.follow_up_id))
        told = [event.event_type for event in events]
        if told != ["follow-up.queued", f"follow-up.{one.status}"][: one.revision]:
            raise PromiseBroken(f"P2: a follow-up is {one.status} after {told}")
        if row.status is RunStatus.CANCELLED and one.status is FollowUpStatus.QUEUED:
            raise PromiseBroken("P2: the run was cancelled, its follow-up waits on")
    known = {one.follow_up_id: one for one in found}
    replies = [it.result for it in look.acknowledged if isinstance(it.result, FollowUpReply)]
    for reply in replies:
        if reply.follow_up_id not in known:
            raise PromiseBroken("P1: somebody was told of a follow-up that is not there")
    removals = [it for it in replies if it.status is FollowUpStatus.REMOVED and not it.adopted]
    if len(removals) > len({it.follow_up_id for it in removals}):
        raise PromiseBroken("P6: two were told that they removed a follow-up")


@scenario(promises=("P1", "P2", "P6"))
def follow_ups_meet_the_end(s: Scene) -> None:
    """Two people queue the same follow-up and take one back, while the run is cancelled."""
    old = served(s)
    run = old.run
    s.prepare(lambda tx: follow_ups.queue_follow_up(tx, PERSON, _new(run, SHARED)))

    @s.actor(count=2)
    async def person(me: Me) -> None:
        await add(me, run, "new")
        await remove(me, run, SHARED)

    @s.actor()
    async def its_server(me: Me) -> None:
        await cancel(me, run, old.claim)

    s.faults(drop=1)

    @s.always
    def proper(look: Look) -> None:
        check_run(look, run)
        check_follow_ups(look, run, SHARED, "new")

    @s.finally_
    def over(look: Look) -> None:
        for one in _found(look, run, SHARED, "new"):
            assert one.status is not FollowUpStatus.QUEUED, "P2: a follow-up outlived a cancel"
