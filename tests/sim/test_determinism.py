"""The same seed gives the same trace: in one process, and whatever the hash seed."""

import os
import subprocess
import sys
from typing import Final

import pytest

from pi_workflows.chaos.sim_scenarios import hold

PROGRAM: Final = """
from pi_workflows.chaos.sim_scenarios import hold

for name in ("several_runs", "machine_sleeps", "views_converge", "storm"):
    print(hold(name, 7).trace.digest())
"""


@pytest.mark.parametrize("name", ["several_runs", "server_dies", "machine_sleeps"])
def test_same_seed_gives_the_same_trace(name: str) -> None:
    """Case: D24."""
    first, *others = [hold(name, 11) for _ in range(3)]
    for other in others:
        assert other.trace.entries == first.trace.entries
        assert other.trace.digest() == first.trace.digest()


def test_other_seeds_give_other_orders() -> None:
    digests = {hold("several_runs", seed).trace.digest() for seed in range(5)}
    assert len(digests) == 5


def test_hash_seed_of_the_interpreter_changes_nothing() -> None:
    """Two processes whose sets and dictionaries of texts are ordered differently.

    Case: D24.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    first, second = (process.communicate()[0].split() for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert len(set(first)) == 4
    assert first == second
