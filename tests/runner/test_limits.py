"""What a runner may take of the machine."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import pi_workflows
from pi_workflows.runner.limits import FILES_DEFAULT, LimitInvalid, Limits

SHOW = """
import resource
from pi_workflows.runner.limits import Limits
{limits}.apply()
print(resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limited(limits: Limits) -> str:
    """What a process has after it has limited itself."""
    shown = subprocess.run(
        [sys.executable, "-c", SHOW.format(limits=limits)],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(pi_workflows.__file__).parent.parent)},
    )
    return shown.stdout.strip()


def test_what_is_set_on_purpose_cannot_be_raised() -> None:
    mib = 1024 * 1024
    assert limited(Limits(512, 100)) == f"{(512 * mib, 512 * mib)} {(100, 100)}"


def test_memory_is_unlimited_and_files_are_bounded_softly_by_default() -> None:
    memory = resource.getrlimit(resource.RLIMIT_AS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = FILES_DEFAULT if hard == resource.RLIM_INFINITY else min(FILES_DEFAULT, hard)
    assert limited(Limits()) == f"{memory} {(soft, hard)}"


def test_no_limit_goes_beyond_what_the_process_has() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        assert limited(Limits(files=hard + 1)).endswith(f"{(hard, hard)}")


def test_variables_are_numbers_in_their_bounds() -> None:
    names = ("PI_WORKFLOWS_RUNNER_MEMORY_MIB", "PI_WORKFLOWS_RUNNER_FILES")
    assert Limits.read({}) == Limits()
    assert Limits.read(dict(zip(names, ("128", "32"), strict=True))) == Limits(128, 32)
    for name, value in ((names[0], "127"), (names[1], "31"), (names[0], "١٢٨"), (names[1], "")):
        with pytest.raises(LimitInvalid, match=f"{name} must be a number from"):
            Limits.read({name: value})
