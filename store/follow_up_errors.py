"""Why a follow-up cannot be queued or removed; all are `Rejected`: nothing was written."""

from collections.abc import Mapping
from typing import ClassVar

from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import FollowUpState
from store.errors import Rejected


class FollowUpTooEarlyError(Rejected):
    """The run is queued: it takes follow-ups once it runs."""

    code: ClassVar[str] = ErrorCode.RUN_NOT_STARTED

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"{run_id} has not started yet: it is queued; queue its follow-up once it runs"
        )


class FollowUpInvalidError(Rejected):
    """The prompt, the request id or the source breaks a bound."""

    code: ClassVar[str] = ErrorCode.FOLLOW_UP_INVALID


class FollowUpUnknownError(Rejected):
    """The run has no follow-up with this id."""

    code: ClassVar[str] = ErrorCode.FOLLOW_UP_UNKNOWN

    def __init__(self, run_id: str, follow_up_id: str) -> None:
        super().__init__(
            f"{run_id} has no follow-up {follow_up_id}; those that it has: "
            f"pi-workflows follow-up list {run_id}"
        )


class FollowUpOverError(Rejected):
    """The follow-up was sent, or its run's end has cancelled it: nothing is left to remove."""

    code: ClassVar[str] = ErrorCode.FOLLOW_UP_OVER
    wire_names: ClassVar[Mapping[str, str]] = {"state": "state"}

    def __init__(self, state: FollowUpState) -> None:
        why = "it was sent" if state is FollowUpState.SENT else "the end of its run cancelled it"
        super().__init__(f"the follow-up cannot be removed: {why}")
        self.state = state


class FollowUpNotYoursError(Rejected):
    """A session or a controller removes no follow-up but its own."""

    code: ClassVar[str] = ErrorCode.FOLLOW_UP_NOT_YOURS

    def __init__(self) -> None:
        super().__init__(
            "somebody else has queued this follow-up; a person may remove it: "
            "pi-workflows follow-up remove RUN ID"
        )
