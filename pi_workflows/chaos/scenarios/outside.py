"""Something is done outside the store under a lease, by its owner alone."""

from pi_workflows.chaos.lease_history import check_lease
from pi_workflows.chaos.scene import Command, Look, Me, Scene, scenario
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import OwnerType
from store import leases
from store.errors import StateBusyError
from store.leases import Owner
from store.transaction import Transaction

RECORDED = "work.recorded"
NOT_DONE = "not done"


@scenario(promises=("P4", "P5"))
def sent_only_if_recorded(s: Scene) -> None:
    """Two owners record what they are going to send, and then send it, or are too late."""
    job = s.resource("job")

    @s.actor(count=2)
    async def sender(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None and await me.write(claim, RECORDED):
            await me.send("mail", me.name, claim)

    s.faults(clock_jump=(31.0,), kill=1)

    @s.always
    def never_without_a_record(look: Look) -> None:
        check_lease(look, job)
        recorded = {event.lease_generation for event in look.events(job, RECORDED)}
        sent = [mail.generation or 0 for mail in look.sent if mail.accepted]
        assert set(sent) <= recorded, "P5: something was sent that was never recorded"
        assert sent == sorted(sent), "P4: the outside obeyed somebody who had been replaced"


@scenario(promises=("P6",), engines=("crash", "orders"))
def told_that_it_was_not_done(s: Scene) -> None:
    """Whoever is told that his command did not run notes that outside; then it is not there.

    Case: D14.
    """
    job = s.resource("job")

    @s.actor(count=2)
    async def client(me: Me) -> None:
        try:
            await me.do(_recording(job, me.name), point="record")
        except StateBusyError:
            await me.send("notes", NOT_DONE)

    @s.always
    def not_there(look: Look) -> None:
        told = {note.actor for note in look.sent if note.key == NOT_DONE}
        there = {event.actor_id for event in look.events(job, RECORDED)}
        assert not told & there, f"P6: {told & there} were told that it was not done: it is there"


def _recording(job: ResourceId, actor: str) -> Command[object]:
    """Return the command that claims, records and releases, all in one."""

    def command(tx: Transaction) -> object:
        claim = leases.claim(tx, leases.host_permit(actor), job, Owner(OwnerType.HOST, actor))
        leases.write(tx, claim, RECORDED)
        leases.release(tx, claim)
        return None

    return command
