"""The wall clock is set, forward and back, under the feet of those who own something."""

from pi_workflows.chaos.lease_history import check_lease, claims_of
from pi_workflows.chaos.scene import Look, Me, Scene, scenario


@scenario(promises=("P3", "P4"))
def clock_steps(s: Scene) -> None:
    """The clock goes ten minutes forward, then an hour back, while owners renew and write."""
    job = s.resource("job")

    @s.actor(count=2)
    async def owner(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.renew(claim)
            await me.write(claim, "work.done")
            await me.renew(claim)

    s.faults(clock_jump=(600.0, -3600.0))

    @s.always
    def never_shortened(look: Look) -> None:
        check_lease(look, job)

    @s.finally_
    def somebody_had_it(look: Look) -> None:
        assert claims_of(look, job), "P3: nobody got a job that was free"
