"""The root command: finds subcommands lazily and turns every error into one line and a code."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from pi_workflows.cli import entry, output
from pi_workflows.cli.overriding import override
from pi_workflows.client.errors import ClientError
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.version import PACKAGE_VERSION

PROGRAM: Final = "pi-workflows"

_COMMANDS: Final = {
    "run": "pi_workflows.cli.run_commands:run",
    "list": "pi_workflows.cli.view_commands:list_runs",
    "show": "pi_workflows.cli.view_commands:show",
    "watch": "pi_workflows.cli.run_commands:watch",
    "pause": "pi_workflows.cli.lifecycle_commands:pause",
    "resume": "pi_workflows.cli.run_commands:resume",
    "cancel": "pi_workflows.cli.view_commands:cancel",
    "restart": "pi_workflows.cli.run_commands:restart",
    "workflows": "pi_workflows.cli.workflow_commands:workflows",
    "settings": "pi_workflows.cli.settings_commands:settings",
    "effects": "pi_workflows.cli.effect_commands:effects",
    "follow-up": "pi_workflows.cli.follow_up_commands:follow_up",
    "server": "pi_workflows.cli.server_commands:server",
    "state": "pi_workflows.cli.state_commands:state",
    "chaos": "pi_workflows.cli.chaos_commands:chaos",
    "completion": "pi_workflows.cli.completion_command:completion",
}

_EPILOG: Final = """\b
Examples:
  pi-workflows run report.workflow.py --input '{"target": 20}'
  pi-workflows list --status running
  pi-workflows show RUN --json | jq .finalOutput

\b
Exit codes:
  0  ok (a detached or interrupted `run` is ok: the run goes on)
  1  the run did not complete, or the operation failed
  2  usage: bad option, unknown run, workflow file or input that was refused
  3  the server is unavailable or could not be started
  4  another server is already running
  5  the stored state is incompatible (nothing was changed)
  `chaos` has its own: pi-workflows chaos --help

\b
With --json, standard output holds JSON only; an error is
{"error": {"code", "message"}} there. Shell completion:
  eval "$(pi-workflows completion bash)"
"""


class RootCommand(click.Group):
    """Imports a subcommand when it is used, and lets no traceback reach the user."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of a first use, not of the alphabet."""
        del ctx
        return list(_COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a subcommand; None for an unknown name."""
        del ctx
        target = _COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, name = target.partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    @override
    def main(  # type: ignore[override]  # It never returns: click's flag for that is not offered.
        self, args: Sequence[str] | None = None, **extra: object
    ) -> NoReturn:
        """Run the command and end the process, whatever happens inside."""
        del extra
        arguments = list(sys.argv[1:] if args is None else args)
        flags = _Flags(arguments)
        output.accept_every_character()
        try:
            entry.take_interrupts()
            sys.exit(int(super().main(arguments, PROGRAM, standalone_mode=False) or ExitCode.OK))
        except click.ClickException as error:
            _end_usage(error, flags)
        except ClientError as error:
            detail = error.detail or ""
            _end(error.message, error.code, error.exit_code, flags, detail)
        except BrokenPipeError:
            _forget_output()  # The reader has seen enough.
            sys.exit(ExitCode.FAILED)
        except (KeyboardInterrupt, click.Abort):
            sys.stderr.write("\n")
            sys.exit(entry.INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - the one place where a bug becomes one line
            _end_bug(error, flags)


class _Flags:
    """Options that matter even when parsing failed, so they are read from the raw arguments."""

    def __init__(self, arguments: Sequence[str]) -> None:
        options = arguments[: arguments.index("--")] if "--" in arguments else arguments
        self.json = "--json" in options
        self.debug = "--debug" in options


def _end_usage(error: click.ClickException, flags: _Flags) -> NoReturn:
    if flags.json:
        output.print_error(ErrorCode.USAGE, error.format_message())
    error.show()
    sys.exit(ExitCode.USAGE)


def _end_bug(error: Exception, flags: _Flags) -> NoReturn:
    text = f"unexpected {type(error).__name__}: {error}"
    if not flags.debug:
        text += " (a bug: run again with --debug to see where)"
    import traceback  # noqa: PLC0415 - 8 ms that only a bug costs

    detail = "".join(traceback.format_exception(error))
    _end(text, ErrorCode.INTERNAL, ExitCode.FAILED, flags, detail)


def _end(text: str, code: str, exit_code: int, flags: _Flags, detail: str) -> NoReturn:
    if flags.json:
        output.print_error(code, text)
    if flags.debug and detail:
        output.tell(detail)
    output.tell(f"{PROGRAM}: {text}")
    sys.exit(exit_code)


def _forget_output() -> None:
    """Keep the interpreter from flushing into the closed pipe once more at its exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


@click.group(
    cls=RootCommand,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(PACKAGE_VERSION, prog_name=PROGRAM)
def root() -> None:
    """Run Python workflows so that a crash loses nothing.

    A workflow server, started on demand, owns all runs of this user; these commands talk to it.
    """


def main() -> NoReturn:
    """Run the command of this process's arguments and end the process."""
    root.main()
