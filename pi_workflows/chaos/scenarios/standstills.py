"""Runs that nobody may start again by himself, however often somebody wants to."""

from typing import Final

from pi_workflows.chaos.courier import Runner
from pi_workflows.chaos.run_looks import check_run, queue_row
from pi_workflows.chaos.run_scenes import queued, resume, serve
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.states import ParkReason
from store.run_parking import Departure, park_run

DEATHS_MAX: Final = 3
"""Deaths in a row without progress; each explicit resume allows one more."""

PAUSE_S: Final = 61.0
"""Longer than the longest wait after a death."""


@scenario(promises=("P8",))
def keeps_dying(s: Scene) -> None:
    """Every child of a run dies before it has done anything, and an operator resumes it once."""
    run = queued(s)

    @s.actor()
    async def server(me: Me) -> None:
        for _ in range(DEATHS_MAX + 3):
            new = await serve(me, run)
            if new is not None:
                await _die(me, new)
            await me.sleep(PAUSE_S)

    @s.actor()
    async def operator(me: Me) -> None:
        pauses = int(me.choose("resumes after pauses", "4", "0", "1", "2", "3"))
        await me.sleep(pauses * PAUSE_S)
        await resume(me, run)

    @s.always
    def stopped_in_time(look: Look) -> None:
        check_run(look, run)
        resumed = len(look.events(run.resource, "run.resume_requested"))
        died = len(look.events(run.resource, "run_started"))
        died += len(look.events(run.resource, "run_resume_prepared"))
        assert died <= DEATHS_MAX + resumed, f"P8: a child was started after {died - 1} deaths"

    @s.finally_
    def waits_for_a_person(look: Look) -> None:
        code = queue_row(look, run).error_code
        assert code == ParkReason.NO_PROGRESS, f"P8: the run stands still for {code}"


async def _die(me: Me, runner: Runner) -> None:
    departure = Departure.DIED_WITHOUT_PROGRESS
    run_id = runner.run.run_id
    await me.unless_lost(
        lambda tx: park_run(tx, runner.permit, run_id, departure).status, point="die"
    )
