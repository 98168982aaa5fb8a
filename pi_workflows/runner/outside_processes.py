"""Tell the server of processes that user code has started outside the runner's session."""

from typing import Final

from pi_workflows.authoring.errors import ProcessRefused
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.runner.channel import Stopped, TurnOver
from pi_workflows.runner.messages import Send
from pi_workflows.runner.publishing import Speak


class OutsideProcesses:
    """Registers for the code that runs now; from any of its threads, waits for the answer."""

    def __init__(self, speak: Speak) -> None:
        self._speak: Final = speak

    def register(self, pid: int) -> None:
        """Have a process ended when the runner has ended; see `Ctx.register_process`.

        Raises:
            ProcessRefused: the server does not take it, or it is too late.
        """
        self._say("process.register", pid)

    def unregister(self, pid: int) -> None:
        """Take a process out of the server's care.

        Raises:
            ProcessRefused: it is not in the care of this runner, or it is too late.
        """
        self._say("process.unregister", pid)

    def _say(self, operation: str, pid: int) -> None:
        try:
            reply = self._speak(Send(operation, {"pid": pid}, None))
        except TurnOver as over:
            raise ProcessRefused("its node has ended") from over
        except Stopped as stopped:
            raise ProcessRefused("the run is being stopped") from stopped
        if reply.outcome is WorkerMessageOutcome.REJECTED:
            raise ProcessRefused(reply.error or "the server refused it")
