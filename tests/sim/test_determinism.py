"""The same seed gives the same trace: in one process, and whatever the hash seed."""

import os
import subprocess
import sys
from typing import Final

import pytest

from pi_workflows.chaos.sim_scenarios import hold, whole_system

PROGRAM: Final = """
import sys
from pi_workflows.chaos.sim_scenarios import hold

for name in sys.argv[1:]:
    print(name, hold(name, 7).trace.digest())
"""

HASH_SEEDS: Final = ("1", "1", "2", "4711")
"""One for each process; two processes have the same."""


@pytest.mark.parametrize("name", ["several_runs", "server_dies", "machine_sleeps", "disk_fails"])
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
    """Every scenario, with all its faults, under three hash seeds, and under one of them twice.

    Their sets and dictionaries of texts are ordered differently.

    Case: D24.
    """
    names = list(whole_system())
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *names],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in HASH_SEEDS
    ]
    told = [process.communicate()[0].split("\n") for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    assert [line.split(" ")[0] for line in told[0][:-1]] == names
    assert all(lines == told[0] for lines in told)
