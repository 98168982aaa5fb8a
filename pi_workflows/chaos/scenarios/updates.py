"""A node says how far it has come while its time runs out, or somebody stops its run."""

import dataclasses
from typing import Final

from pi_workflows.chaos.courier import FETCH, Courier, Runner
from pi_workflows.chaos.run_looks import ENDS, check_run
from pi_workflows.chaos.run_scenes import cancel, served, tell
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from runtime.chaos.outcome import PromiseBroken
from store import updates
from store.blobs import Blob
from store.errors import ClaimLostError
from store.proposals import StartAttempt
from store.run_messages import Answered, advance_once
from store.update_messages import UpdateMessage, publish_once
from store.updates import NewUpdate

PUBLISHED: Final = "update_published"
SAID: Final = "say"
_CLOSES: Final = frozenset({"node_finished", "node_failed"}) | ENDS


async def say(me: Me, runner: Runner, start: StartAttempt, far: int) -> Answered | None:
    """Publish how far a try has come; None when its server does not own the run any more."""
    data = Blob.of_json({"far": far})
    message = UpdateMessage(
        runner.run.run_id,
        runner.worker_epoch,
        f"{me.name}-says-{far}",
        data.blob_hash,
        NewUpdate(start.attempt_id, "progress.note", "far", data),
    )
    try:
        return await me.do(lambda tx: publish_once(tx, runner.permit, message), point=SAID)
    except ClaimLostError:
        return None


def check_updates(look: Look, run: Courier) -> None:
    """Hold a run to what is promised of updates: in time, the newest is current, none is lost.

    Raises:
        PromiseBroken: names the promise.
    """
    closed, told = False, []
    for event in look.events(run.resource):
        closed |= event.event_type in _CLOSES
        if event.event_type == PUBLISHED:
            told.append(event.resource_revision)
            if closed:
                raise PromiseBroken("P4: an update was taken from a try that is not at work")
    current = [update["seq"] for update in updates.current(look.reading, run.run_id)]
    if current != told[-1:]:
        raise PromiseBroken(f"P2: the current update is {current}, the newest is {told[-1:]}")
    for known in look.acknowledged:
        answer = known.result
        if known.point != SAID or not isinstance(answer, Answered):
            continue
        if answer.outcome is not WorkerMessageOutcome.REJECTED and answer.revision not in told:
            raise PromiseBroken("P1: an update that was acknowledged is not there")


@scenario(promises=("P1", "P2", "P4"))
def updated_in_time(s: Scene) -> None:
    """A try publishes updates while it times out and its run is cancelled: none comes after."""
    runner = served(s)
    run = runner.run
    start = runner.starts(FETCH)
    s.prepare(lambda tx: advance_once(tx, runner.permit, runner.message(start)))

    @s.actor(count=2)
    async def voice(me: Me) -> None:
        for far in (1, 2):
            await say(me, runner, start, far)

    @s.actor()
    async def its_runner(me: Me) -> None:
        late = dataclasses.replace(runner.fails(start), outcome=StepOutcome.TIMED_OUT)
        await tell(me, runner, late)

    @s.actor()
    async def its_server(me: Me) -> None:
        await cancel(me, run, runner.claim)

    @s.always
    def in_time(look: Look) -> None:
        check_run(look, run)
        check_updates(look, run)
