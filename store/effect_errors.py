"""Why an effect cannot be taken or resolved; all are `Rejected`: nothing was written."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import EffectStatus, RunStatus
from store.errors import Rejected


class EffectUnknownError(Rejected):
    """No run has an effect with this id."""

    code: ClassVar[str] = ErrorCode.EFFECT_UNKNOWN

    def __init__(self, effect: str) -> None:
        super().__init__(
            f"there is no effect {effect}; the open ones are listed by: pi-workflows effects"
        )


class EffectSettledError(Rejected):
    """The effect is settled, or was resolved in another way; what was first stands."""

    code: ClassVar[str] = ErrorCode.EFFECT_SETTLED
    wire_names: ClassVar[Mapping[str, str]] = {"status": "status", "verb": "verb"}

    def __init__(self, status: EffectStatus, verb: str | None, others: Sequence[str] = ()) -> None:
        """Tell what stands.

        Args:
            status: of the effect.
            verb: what an operator had said; None when nobody was asked.
            others: what was said differently then, under the same verb.
        """
        how = f"was resolved before as {verb}" if verb is not None else "was settled"
        if others:
            how = f"{how}, with another {' and another '.join(others)},"
        super().__init__(f"the effect {how} and is {status} now; that stands")
        self.status = status
        self.verb = verb


class EffectNotAmbiguousError(Rejected):
    """Nobody has to say anything: the effect's run is still at it."""

    code: ClassVar[str] = ErrorCode.EFFECT_NOT_AMBIGUOUS
    wire_names: ClassVar[Mapping[str, str]] = {"status": "status", "run_id": "runId"}

    def __init__(self, status: EffectStatus, run_id: str) -> None:
        super().__init__(
            f"the effect is {status}: its run goes on with it by itself; look with: "
            f"pi-workflows show {run_id}"
        )
        self.status = status
        self.run_id = run_id


class RetryRefusedError(Rejected):
    """The effect's run has ended: nobody is there to try again."""

    code: ClassVar[str] = ErrorCode.RUN_ENDED
    wire_names: ClassVar[Mapping[str, str]] = {"status": "status"}

    def __init__(self, run_id: str, status: RunStatus) -> None:
        super().__init__(
            f"{run_id} has ended ({status}) and tries nothing again; say what you found with "
            "--applied or --rejected"
        )
        self.status = status


class EffectNotDueError(Rejected):
    """The effect waits between two attempts."""

    code: ClassVar[str] = "EFFECT_NOT_DUE"
    wire_names: ClassVar[Mapping[str, str]] = {"due_at": "dueAt"}

    def __init__(self, due_at: int) -> None:
        """`due_at` in UTC epoch ms."""
        super().__init__("the effect's next attempt is not due yet")
        self.due_at = due_at
