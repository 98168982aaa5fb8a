"""A server starts where there is nothing yet."""

from pi_workflows.chaos.lease_history import CLAIMED, check_lease, claims_of
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.ids import resource_id
from pi_workflows.protocol.states import ResourceType
from store import resources
from store.authority import holding
from store.errors import UnknownResourceError

WORK = "work.done"


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
            await me.write(claim, WORK)

    def is_made(look: Look) -> bool:
        try:
            holding(look.reading, job)
        except UnknownResourceError:
            return False
        return True

    @s.always
    def nothing_is_lost(look: Look) -> None:
        if is_made(look):
            check_lease(look, job)
        else:
            assert not look.acknowledged, "P1: a command was answered and is gone"
            assert not look.events(job), "P2: something was done to a job that is not there"

    @s.finally_
    def all_is_done(look: Look) -> None:
        assert [event.event_type for event in look.events(job)] == [CLAIMED, WORK]
        assert claims_of(look, job), "P1: nobody got a job that was free"
