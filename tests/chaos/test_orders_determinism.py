"""The same seeds leave the same traces in every process, whatever its hash seed."""

import os
import subprocess
import sys
from typing import Final

_EXPLORE: Final = """
import hashlib
from pi_workflows.chaos.orders_engine import playing
from pi_workflows.chaos.registry import SCENARIOS
from runtime.chaos.engine import Wanted
from runtime.chaos.explorer import Explorer

digest = hashlib.sha256()
for name in ("renewed_and_reclaimed", "harmless_effect_is_tried_again"):
    with playing(SCENARIOS[name]) as stage:
        explorer = Explorer(stage, Wanted(seeds=range(8)))
        account = explorer._account

        def noting(played, seed):
            digest.update(repr(played.choices.unusual).encode())
            digest.update(played.order.digest().encode())
            account(played, seed)

        explorer._account = noting
        tally = explorer.explore(is_all=False)
        assert (tally.explored, tally.not_deterministic) == (8, []), tally
print(digest.hexdigest())
"""


def test_traces_are_the_same_in_two_processes_under_each_of_three_hash_seeds() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _EXPLORE],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "1", "4711")
        for _ in range(2)
    ]
    digests = [child.communicate()[0].strip() for child in running]
    assert [child.returncode for child in running] == [0] * 6
    assert len(set(digests)) == 1
    assert len(digests[0]) == 64
