"""Start the runner template, as early as a server likes: standard library only, no loop."""

import os
import sys
from typing import Final

from runtime.child_environment import child_environment
from runtime.program import DESCRIPTOR_PLACEHOLDER, Program, start_program

TEMPLATE_MODULE: Final = "pi_workflows.runner.template"

START_VARIABLE: Final = "PI_WORKFLOWS_RUNNER_START"
"""`exec` starts every runner as a new program; unset is the default of the system."""

MARKER_BYTES: Final = 128
"""Room for the marker of any child: a fork overwrites the template's own in place."""

_SECRET_BYTES: Final = 16


def has_template() -> bool:
    """Say whether children are forked here: on Linux, unless the environment says otherwise."""
    return sys.platform == "linux" and os.environ.get(START_VARIABLE) != "exec"


def start_if_used() -> Program | None:
    """Start a template; None where children are started by exec.

    Raises:
        OSError: see `start_template`.
    """
    return start_template() if has_template() else None


def start_template() -> Program:
    """Start a template.

    Its whole environment is what children get, so that what Python reads at its start (the
    encoding, the locale) is the same in a forked child and in one started by exec.

    Raises:
        OSError: it cannot be run; nothing is left behind.
    """
    marker = f"template-{os.urandom(_SECRET_BYTES).hex()}".ljust(MARKER_BYTES, ".")
    argv = (sys.executable, "-P", "-m", TEMPLATE_MODULE, "--fd", DESCRIPTOR_PLACEHOLDER)
    return start_program(argv, cwd="/", env=child_environment(), marker=marker)
