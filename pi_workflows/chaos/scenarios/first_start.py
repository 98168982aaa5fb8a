"""A server starts where there is nothing yet."""

from pi_workflows.chaos.lease_history import check_lease
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.ids import resource_id
from pi_workflows.protocol.states import ResourceType
from store import resources


@scenario(promises=("P1", "P2", "P9"), engines=("crash",), core=True)
def first_start(s: Scene) -> None:
    """The first server of an installation makes the database and takes its first commands.

    Case: D21.
    """
    s.begin_without_database()
    key = s.name("job")
    job = resource_id(ResourceType.MAINTENANCE, key)

    @s.actor()
    async def client(me: Me) -> None:
        await me.do(lambda tx: resources.create(tx, ResourceType.MAINTENANCE, key), point="create")
        claim = await me.claim(job)
        if claim is not None:
            await me.write(claim, "work.done")

    @s.always
    def nothing_is_lost(look: Look) -> None:
        if look.acknowledged:
            check_lease(look, job)
