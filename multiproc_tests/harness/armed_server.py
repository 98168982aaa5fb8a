"""A server with armed sync points and a shared clock: `armed_server.py CONTROL CLOCK POINT...`.

CONTROL and CLOCK are descriptors.
"""

import sys
from pathlib import Path

from multiproc_tests.harness.shared_clock import AgedProcesses, ServedClock
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.server import main
from runtime.sync_points import ArmedSyncPoints, SyncPoint
from runtime.template_program import start_if_used
from runtime.world import production_world

if __name__ == "__main__":
    armed = ArmedSyncPoints(int(sys.argv[1]), [SyncPoint(point) for point in sys.argv[3:]])
    clock = ServedClock(int(sys.argv[2]))
    world = production_world(
        armed, template=start_if_used(), clock=clock, processes=AgedProcesses(clock)
    )
    sys.exit(main(StatePaths(Path.home()), world=world, timers=clock))
