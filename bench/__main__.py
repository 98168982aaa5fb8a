"""Figures of the store and of whole runs: `python -m bench [--profile] [--json FILE]`.

Takes about three minutes, starts servers of its own in temporary homes and leaves nothing behind.
Whatever else the machine does shows: compare ratios, and medians of runs on a quiet machine.
`--profile` prints instead where the CPU time of one command and of one step goes.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.disk import measure_disk
from bench.figures import Section, document
from bench.footprint import FootprintPlan, measure_footprint
from bench.hooks import HookPlan, measure_hooks
from bench.long_run import LongRunPlan, measure_long_run
from bench.many_updates import UpdatesPlan, measure_updates
from bench.restart import RestartPlan, measure_restart
from bench.simulation import SimulationPlan, measure_simulation
from bench.step_profile import ProfilePlan, measure_profile
from bench.store_commands import StorePlan, measure_store
from bench.workflow_steps import StepPlan, measure_steps
from pi_workflows.protocol.canonical import canonical_bytes
from pi_workflows.server import SWITCH_INTERVAL_S

STORE_PLAN: Final = StorePlan(
    rounds=5, singles=128, groups=16, switch_interval_s=SWITCH_INTERVAL_S
)
UPDATES_PLAN: Final = UpdatesPlan(updates=1_000, rounds=5, reads=200)
LONG_RUN_PLAN: Final = LongRunPlan(steps=10_000, part=1_000, rounds=5)
STEP_PLAN: Final = StepPlan(steps=10, alone=40, watched=5, at_once=16, rounds=3)
HOOK_PLAN: Final = HookPlan(rounds=5, calls=200_000)
SIMULATION_PLAN: Final = SimulationPlan(seeds=10)
RESTART_PLAN: Final = RestartPlan(killed=(1, 64), left=(1_000,), rounds=3)
FOOTPRINT_PLAN: Final = FootprintPlan(idle_s=5.0, runs=16)
PROFILE_PLAN: Final = ProfilePlan(rounds=5, steps=16, messages=2_000)


def measure(folder: Path) -> Iterator[Section]:
    """Yield one section after the other; everything is made and ended inside `folder`."""
    yield measure_disk(folder)
    yield measure_store(folder, STORE_PLAN)
    yield measure_long_run(folder, LONG_RUN_PLAN)
    yield measure_updates(folder, UPDATES_PLAN)
    yield measure_steps(_home(folder, "steps"), STEP_PLAN)
    yield measure_restart(folder, RESTART_PLAN)
    yield measure_footprint(_home(folder, "idle"), FOOTPRINT_PLAN)
    yield measure_hooks(HOOK_PLAN)
    yield measure_simulation(SIMULATION_PLAN)


def _home(folder: Path, name: str) -> Path:
    home = folder / name
    home.mkdir()
    return home


def profile(folder: Path) -> Iterator[Section]:
    """Yield what explains the figures."""
    yield measure_profile(folder, PROFILE_PLAN)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Print figures.")
    parser.add_argument("--profile", action="store_true", help="where a step's CPU time goes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    sections: list[Section] = []
    with tempfile.TemporaryDirectory(prefix="pwb-") as folder:
        for section in (profile if options.profile else measure)(Path(folder)):
            sections.append(section)
            print(section.text(), end="\n\n", flush=True)
    if options.json is not None:
        options.json.write_bytes(canonical_bytes(document(sections)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
