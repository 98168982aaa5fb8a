"""A small scenario for the engine `crash`, and what its tests have in common."""

from typing import Final

from pi_workflows.chaos.crash_engine import CrashEngine
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Tally

WORKS: Final = 4


@scenario(promises=("P1",))
def a_few_writes(s: Scene) -> None:
    """One owner writes a few times."""
    job = s.resource("job")

    @s.actor()
    async def owner(me: Me) -> None:
        claim = await me.claim(job)
        assert claim is not None
        for _ in range(WORKS):
            await me.write(claim, "work.done")

    @s.always
    def answered_is_there(look: Look) -> None:
        told = [known for known in look.acknowledged if known.point == "write"]
        assert len(look.events(job, "work.done")) >= len(told)


def explored_all(wanted: Wanted) -> dict[str, Tally]:
    """Return the tallies of an exploration by unit."""
    return {tally.unit: tally for tally in CrashEngine().explore(a_few_writes, wanted)}
