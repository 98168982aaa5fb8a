"""Something is done outside the store under a lease, by its owner alone."""

from pi_workflows.chaos.lease_history import check_lease
from pi_workflows.chaos.scene import Look, Me, Scene, scenario

RECORDED = "work.recorded"


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
