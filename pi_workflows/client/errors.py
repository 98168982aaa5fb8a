"""What can go wrong between a client and the server, each with a code and an exit code.

ClientError
  Unavailable        nothing answered, or it stopped answering; trying again may help
    ConnectionLost   the connection ended before the reply
    ServerStopped    it was stopped in order; nobody brings it back by trying
  VersionsDiffer     client and server come from different packages
  ProtocolViolation  the peer broke `pi-workflows.client.v1`
  Refused            the server's own answer: it said no
  StartFailed        no server could be started
"""

from typing import Final

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import GRAPH_CODES, ErrorCode, ExitCode
from pi_workflows.protocol.states import CommandOutcome

# The caller gave something wrong; everything else a server refuses is a failure.
_USAGE_CODES: Final = GRAPH_CODES | frozenset(
    {
        ErrorCode.USAGE,
        ErrorCode.RUN_UNKNOWN,
        ErrorCode.RUN_ID_INVALID,
        ErrorCode.PAYLOAD_INVALID,
        ErrorCode.SOURCE_UNKNOWN,
        ErrorCode.SOURCE_NOT_A_WORKFLOW,
        ErrorCode.SOURCE_FAILED,
        ErrorCode.DEFINITION_INVALID,
        ErrorCode.INPUT_REJECTED,
        ErrorCode.NOT_JSON,
        ErrorCode.NODE_CANNOT_RUN,
        ErrorCode.NOTIFY_NEEDS_SESSION,
        ErrorCode.TITLE_FAILED,
        ErrorCode.TITLE_TIMEOUT,
    }
)
_START: Final = "run.start"
"""A start refuses settings that its file makes; a change refuses those that somebody asks for."""
_EXIT_OF_CODE: Final = {
    ErrorCode.STATE_INCOMPATIBLE: ExitCode.INCOMPATIBLE_STATE,
    ErrorCode.SERVER_ALREADY_RUNNING: ExitCode.ALREADY_RUNNING,
    ErrorCode.SERVER_UNAVAILABLE: ExitCode.UNAVAILABLE,
    ErrorCode.SERVER_STOPPING: ExitCode.UNAVAILABLE,
}


class ClientError(Exception):
    """Base of everything here.

    Attributes:
        message: one text for a person; it names what failed and, where known, what to do next.
        code: stable machine-readable reason.
        exit_code: what a command line process should end with.
        detail: more for a person who debugs (an author's traceback), or None.
    """

    def __init__(
        self, message: str, *, code: str, exit_code: ExitCode, detail: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.exit_code = exit_code
        self.detail = detail


class Unavailable(ClientError):
    """Nothing answers on the socket, or it stopped answering."""

    def __init__(self, message: str, *, code: str = ErrorCode.SERVER_UNAVAILABLE) -> None:
        super().__init__(message, code=code, exit_code=ExitCode.UNAVAILABLE)


class ConnectionLost(Unavailable):
    """The connection ended before the reply: whether the request was carried out is unknown."""


class ServerStopped(Unavailable):
    """The server was stopped in order: no attempt to reconnect brings it back by itself."""


class VersionsDiffer(ClientError):
    """The server's package version is not this client's; nothing was sent.

    Attributes:
        server_version: what the server said in its hello.
    """

    def __init__(self, server_version: str, own_version: str) -> None:
        super().__init__(
            f"the running server is pi-workflows {server_version}, this is {own_version}: use"
            " matching packages and restart the server (pi-workflows server stop); the stored"
            " state stays as it is",
            code=ErrorCode.VERSION_MISMATCH,
            exit_code=ExitCode.UNAVAILABLE,
        )
        self.server_version = server_version


class ProtocolViolation(ClientError):
    """The peer sent something that `pi-workflows.client.v1` does not allow."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"the server broke the protocol: {message}",
            code=ErrorCode.PROTOCOL_VIOLATION,
            exit_code=ExitCode.UNAVAILABLE,
        )


class RequestInvalid(ClientError):
    """What was asked has no frame: larger than 1 MiB, not JSON, no run id; nothing was sent."""

    def __init__(self, message: str, *, code: str = ErrorCode.PAYLOAD_INVALID) -> None:
        super().__init__(message, code=code, exit_code=ExitCode.USAGE)


class Refused(ClientError):
    """The server answered no.

    Attributes:
        outcome: one of the closed set, never `accepted` or `adopted`.
        receipt: what came with it; holds `code` where the server has one.
    """

    def __init__(
        self,
        outcome: CommandOutcome,
        message: str,
        receipt: JsonObject,
        operation: str | None = None,
    ) -> None:
        """`operation` is what was asked; None when it makes no difference."""
        code = receipt.get("code")
        detail = receipt.get("detail")
        known = code if isinstance(code, str) else _code_of(outcome)
        super().__init__(
            message,
            code=known,
            exit_code=_exit_of(outcome, known, operation),
            detail=detail if isinstance(detail, str) else None,
        )
        self.outcome = outcome
        self.receipt = receipt


class StartFailed(ClientError):
    """No server could be started; the message ends with what the last one said."""


def _code_of(outcome: CommandOutcome) -> str:
    return {
        CommandOutcome.UNAVAILABLE: "SERVER_STOPPING",
        CommandOutcome.NOT_FOUND: "NOT_FOUND",
        CommandOutcome.CONFLICT: "CONFLICT",
        CommandOutcome.CLAIM_LOST: "CLAIM_LOST",
    }.get(outcome, "REJECTED")


def _exit_of(outcome: CommandOutcome, code: str, operation: str | None) -> ExitCode:
    if outcome is CommandOutcome.UNAVAILABLE:
        return ExitCode.UNAVAILABLE
    if outcome is CommandOutcome.NOT_FOUND or code in _USAGE_CODES:
        return ExitCode.USAGE
    if operation == _START and code == ErrorCode.SETTINGS_REJECTED:
        return ExitCode.USAGE
    return {str(key): value for key, value in _EXIT_OF_CODE.items()}.get(code, ExitCode.FAILED)
