"""What commands share: the user's paths, a client that starts the server, common options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import check_socket_path, open_channel
from pi_workflows.client.discovery import start_server
from pi_workflows.client.errors import ClientError
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.paths import StatePaths

_F = TypeVar("_F", bound=Callable[..., Any])

RUN_METAVAR: Final = "RUN"


def user_paths() -> StatePaths:
    """Return the paths of the calling user.

    Raises:
        ClientError: there is no home directory, or the socket path is too long.
    """
    paths = StatePaths(user_home())
    check_socket_path(paths.socket)
    return paths


def user_home() -> Path:
    """Return the home directory of the calling user.

    Raises:
        ClientError: there is none.
    """
    try:
        return Path.home().absolute()
    except RuntimeError as error:
        raise ClientError(
            "no home directory is known: set HOME",
            code=ErrorCode.STATE_DIRECTORY_UNUSABLE,
            exit_code=ExitCode.UNAVAILABLE,
        ) from error


def client_of(paths: StatePaths) -> BlockingClient:
    """Return a client that starts the server when none answers."""
    return BlockingClient(lambda: start_server(paths))


def connected_client_of(paths: StatePaths) -> BlockingClient:
    """Return a client that only connects to a server that already runs."""
    return BlockingClient(lambda: open_channel(paths.socket))


def usage_problem(message: str, code: str = ErrorCode.USAGE) -> ClientError:
    """Return the error of something that the caller has to change."""
    return ClientError(message, code=code, exit_code=ExitCode.USAGE)


def json_option(text: str) -> Callable[[_F], _F]:
    """Add `--json`; the text says what it prints."""
    return click.option("as_json", "--json", is_flag=True, help=text)


def debug_option(command: _F) -> _F:
    """Add `--debug`, which the root command reads from the raw arguments."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, help="Show the traceback behind an error."
    )(command)


def epilog(*lines: str) -> str:
    """Return a help epilog that shows its lines as examples, unwrapped."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
