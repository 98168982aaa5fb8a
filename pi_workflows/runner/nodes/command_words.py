"""How the end of a command is told, in one bounded line."""

from pathlib import Path
from typing import Final

from pi_workflows.authoring.shell import Command
from pi_workflows.runner.messages import bounded_text
from pi_workflows.runner.nodes.command import EndedCommand, working_directory

_LAST_LINE_CHARS: Final = 500


def how_it_ended(command: Command, ended_command: EndedCommand) -> str:
    """Return how a command ended, with the last line of its standard error."""
    result = ended_command.result
    if ended_command.timed_out:
        ended = f"took too long and was ended after {result.duration_ms} ms"
    elif result.signal is not None:
        ended = f"was ended by {result.signal}"
    elif result.exit_code is not None:
        ended = f"exited with code {result.exit_code}"
    else:
        ended = "could not be killed"
    lines = ended_command.stderr_tail.strip().splitlines()
    last = f": {bounded_text(lines[-1].strip(), _LAST_LINE_CHARS)}" if lines else ""
    return f"{_shown(command)} {ended}{last}"


def not_started(command: Command, error: BaseException) -> str:
    """Return why a command could not be started."""
    folder = working_directory(command)
    if isinstance(error, OSError) and not Path(folder).is_dir():
        return f"{_shown(command)} could not be started: there is no folder {folder}"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{_shown(command)} could not be started: {text}"


def _shown(command: Command) -> str:
    return f'command "{bounded_text(command.command, _LAST_LINE_CHARS)}"'
