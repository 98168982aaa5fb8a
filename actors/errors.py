"""What ends a server: each with the exit code that its process answers.

ServerRefused            the server cannot start or go on, for a reason an operator can act on
  AlreadyRunning         another server serves this state
  DatabaseDamaged        the file is not to be served
"""

from pi_workflows.protocol.errors import ErrorCode, ExitCode
from store.damage import STATE_DAMAGED_TEXT


class ServerRefused(Exception):
    """The server cannot start or go on.

    Attributes:
        exit_code: of the process.
        code: stable, for `--json`.
    """

    def __init__(
        self,
        message: str,
        *,
        exit_code: ExitCode = ExitCode.FAILED,
        code: ErrorCode = ErrorCode.SERVER_UNAVAILABLE,
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.code = code


class AlreadyRunning(ServerRefused):
    """Another server serves this state; it was not touched."""

    def __init__(self, pid: int | None, but: str = "is already running") -> None:
        """Name the server.

        Args:
            pid: None when it is not known.
            but: what is to be said about it.
        """
        who = f"PID {pid}" if pid is not None else "another process"
        super().__init__(
            f"the workflow server ({who}) {but}. "
            "Use it, or stop it first: pi-workflows server stop",
            exit_code=ExitCode.ALREADY_RUNNING,
            code=ErrorCode.SERVER_ALREADY_RUNNING,
        )


class DatabaseDamaged(ServerRefused):
    """The database has lost what it once held; it is not served."""

    def __init__(self) -> None:
        super().__init__(STATE_DAMAGED_TEXT)
