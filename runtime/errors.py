"""What the runtime refuses (`Refusal`) and what the world does to it (`RuntimeFault`).

RuntimeFault                    the world failed; `hint` tells the operator what to do
  SpawnFailed                   a child could not be started
  ProcessesSurvived             killed processes were still there when the wait ended
  ForeignFile                   a runtime file is torn or not ours
  NotPrivate                    a directory others could enter, or owned by someone else
  SocketPathTaken               something that is no socket stands where the socket goes
  SupervisionFailed             a task failed more often than its supervisor allows
Refusal                         an expected answer; nothing was changed
  SocketPathTooLong             the kernel cannot hold the path of the socket
  MailboxClosed, MailboxFull    the message was not delivered
  CommitExecutorClosed          the work was not run
"""

from typing import ClassVar

from pi_workflows.protocol.errors import ErrorCode


class RuntimeFault(Exception):
    """The world failed underneath us.

    Attributes:
        hint: One sentence for the operator: what to do next. Empty when there is nothing to do.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class SpawnFailed(RuntimeFault):
    """A child process could not be started; nothing of it is left behind."""


class ProcessesSurvived(RuntimeFault):
    """Processes were killed and had not ended when the bounded wait was over."""


class ForeignFile(RuntimeFault):
    """A runtime file exists but does not hold what this version writes there."""


class NotPrivate(RuntimeFault):
    """A directory that must belong to this user alone does not."""


class SocketPathTaken(RuntimeFault):
    """A file that is not a socket stands at the socket's path; it was left alone."""


class SupervisionFailed(RuntimeFault):
    """A task failed more often than its supervisor allows; `__cause__` is its last error.

    Attributes:
        key: The failing task's key.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Refusal(Exception):
    """An expected refusal: nothing was changed, the caller decides.

    Attributes:
        code: Stable identifier of the reason.
    """

    code: ClassVar[str] = "REFUSED"


class SocketPathTooLong(Refusal):
    """The socket's path does not fit the kernel's address structure.

    Attributes:
        path_bytes: Length of the refused path in bytes.
        path_bytes_max: The longest path this platform takes.
    """

    code = ErrorCode.SOCKET_PATH_TOO_LONG

    def __init__(self, path: str, *, path_bytes: int, path_bytes_max: int) -> None:
        super().__init__(
            f"socket path is {path_bytes} bytes long, the limit is {path_bytes_max}: {path}"
        )
        self.path_bytes = path_bytes
        self.path_bytes_max = path_bytes_max


class MailboxClosed(Refusal):
    """The actor that reads the mailbox has ended; the message was not or not fully handled."""

    code = "MAILBOX_CLOSED"


class MailboxFull(Refusal):
    """The mailbox holds as many messages as it may; the message was not delivered."""

    code = "MAILBOX_FULL"


class CommitExecutorClosed(Refusal):
    """The commit executor was closed before the work was handed over; it did not run."""

    code = "COMMIT_EXECUTOR_CLOSED"
