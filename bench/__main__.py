"""First figures of the store and of whole runs: `python -m bench [--json FILE]`.

Takes about a minute, starts a server of its own in a temporary home and leaves nothing behind.
Whatever else the machine does shows: compare ratios, and medians of runs on a quiet machine.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.disk import measure_disk
from bench.figures import Section, document
from bench.store_commands import StorePlan, measure_store
from bench.workflow_steps import StepPlan, measure_steps
from pi_workflows.protocol.canonical import canonical_bytes
from pi_workflows.server import SWITCH_INTERVAL_S

STORE_PLAN: Final = StorePlan(
    rounds=5, singles=128, groups=16, switch_interval_s=SWITCH_INTERVAL_S
)
STEP_PLAN: Final = StepPlan(steps=10, alone=10, watched=5, at_once=16, rounds=2)


def measure(folder: Path, store: StorePlan, steps: StepPlan) -> Iterator[Section]:
    """Yield one section after the other; everything is made and ended inside `folder`."""
    yield measure_disk(folder)
    yield measure_store(folder, store)
    home = folder / "home"
    home.mkdir()
    yield measure_steps(home, steps)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Print first figures.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    sections: list[Section] = []
    with tempfile.TemporaryDirectory(prefix="pwb-") as folder:
        for section in measure(Path(folder), STORE_PLAN, STEP_PLAN):
            sections.append(section)
            print(section.text(), end="\n\n", flush=True)
    if options.json is not None:
        options.json.write_bytes(canonical_bytes(document(sections)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
