"""Take the presentation instructions of a run from the child that has just ended it.

None of it can touch the result: what is refused or fails is logged and told to the child.
"""

from typing import Final

import trio

from actors.runner_channel import RunnerChannel, RunnerMessage
from actors.services import Services
from pi_workflows.protocol.states import WorkerMessageOutcome
from store.authority import Permit
from store.blobs import Blob
from store.errors import Rejected
from store.run_presenting import PROMPT_BYTES_MAX, present_run

FAREWELL_S: Final = 5.0
"""How long a child whose run has ended may take to say goodbye: it holds a place meanwhile."""

PRESENTING_S: Final = 35.0
"""The same while it asks its workflow how to present the result: 30 s and some grace."""

_KIND_CHARS: Final = 64


class RunnerPresentation:
    """What one child has to say after the end of its run.

    Attributes:
        farewell_s: how long it may take until its next word.
        farewell: around all that it says. From the commit of the end on it is shielded: a server
            that stops hears the child out, for `hurry`.
    """

    def __init__(self, services: Services, run_id: str, permit: Permit) -> None:
        self._services: Final = services
        self._run_id: Final = run_id
        self._permit: Final = Permit(permit.actor)
        self._log: Final = services.log.bind("runner", runId=run_id)
        self.farewell: Final = trio.CancelScope()
        self.farewell_s = FAREWELL_S

    def hurry(self, within_s: float) -> None:
        """Hear the child no longer than this, also where nothing else cancels."""
        deadline = trio.current_time() + within_s
        self.farewell.deadline = min(self.farewell.deadline, deadline)

    def note(self, message: RunnerMessage) -> None:
        """Hear that the workflow is being asked, or that asking it has failed."""
        asking = message.payload.get("presenting") is True
        self.farewell_s = PRESENTING_S if asking else FAREWELL_S
        error = message.payload.get("presentationError")
        if isinstance(error, str):
            # Its kind alone: what an exception says may be data of the run.
            self._log.warning("presentation_failed", error=error.partition(":")[0][:_KIND_CHARS])

    async def store(self, channel: RunnerChannel, message: RunnerMessage) -> None:
        """Store the instructions and answer.

        Raises:
            trio.BrokenResourceError: the child is gone.
        """
        self.farewell_s = FAREWELL_S
        text = message.payload.get("text")
        if not isinstance(text, str) or not text.strip() or len(text.encode()) > PROMPT_BYTES_MAX:
            await self._refuse(
                channel, message, f"presentation_prompt is a text of 1 to {PROMPT_BYTES_MAX} bytes"
            )
            return
        blob, epoch = Blob.of_text(text), channel.worker_epoch
        try:
            revision = await self._services.store.insist(
                lambda tx: present_run(tx, self._permit, self._run_id, epoch, blob)
            )
        except Rejected as refused:
            await self._refuse(channel, message, str(refused))
        else:
            await channel.reply(message, WorkerMessageOutcome.ACCEPTED, revision=revision)

    async def _refuse(self, channel: RunnerChannel, message: RunnerMessage, error: str) -> None:
        self._log.warning("presentation_failed", error=error)
        await channel.reply(message, WorkerMessageOutcome.REJECTED, error=error)
