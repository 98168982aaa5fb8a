"""A server with armed sync points and a shared clock: `armed_server.py CONTROL CLOCK POINT...`.

CONTROL and CLOCK are descriptors.
"""

import sys
from pathlib import Path

from multiproc_tests.harness.shared_clock import AgedProcesses, ServedClock
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.server import main
from runtime.live_state import LiveStateRefused
from runtime.sync_points import ArmedSyncPoints, SyncPoint
from runtime.template_program import start_if_used
from runtime.world import production_world

if __name__ == "__main__":
    paths = StatePaths(Path.home())
    points = [SyncPoint(point) for point in sys.argv[3:]]
    try:
        armed = ArmedSyncPoints(int(sys.argv[1]), points, paths.state_dir)
    except LiveStateRefused as refused:
        sys.exit(f"pi-workflows: {refused}")
    clock = ServedClock(int(sys.argv[2]))
    world = production_world(
        armed, template=start_if_used(), clock=clock, processes=AgedProcesses(clock)
    )
    sys.exit(main(paths, world=world, timers=clock))
