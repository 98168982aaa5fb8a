"""The command that prints what a shell needs for Tab: `completion`."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from pi_workflows.cli import output
from pi_workflows.cli.context import debug_option, epilog, json_option

PROGRAM: Final = "pi-workflows"
VARIABLE: Final = "_PI_WORKFLOWS_COMPLETE"
"""By it the printed function tells the program that it is asked by a shell."""

SHELLS: Final = ("bash", "zsh", "fish")


@click.command(
    epilog=epilog(
        'eval "$(pi-workflows completion bash)"   # in ~/.bashrc',
        'eval "$(pi-workflows completion zsh)"    # in ~/.zshrc',
        "pi-workflows completion fish | source    # in ~/.config/fish/config.fish",
    )
)
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@json_option("Print one document: shell, script.")
@debug_option
@click.pass_context
def completion(context: click.Context, *, shell: str, as_json: bool) -> None:
    """Print what lets a shell complete commands and runs.

    SHELL is bash (4.4 or newer), zsh or fish. Runs are asked of the server if one is running; none
    is started for it.
    """
    made_by = get_completion_class(shell)
    assert made_by is not None, "click knows all of them"
    script = made_by(context.find_root().command, {}, PROGRAM, VARIABLE).source()
    if as_json:
        output.print_json({"shell": shell, "script": script})
    else:
        output.print_text(script)
