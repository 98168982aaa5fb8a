"""A server with armed sync points, as a program: `armed_server.py DESCRIPTOR POINT...`."""

import sys
from pathlib import Path

from pi_workflows.protocol.paths import StatePaths
from pi_workflows.server import main
from runtime.sync_points import ArmedSyncPoints, SyncPoint

if __name__ == "__main__":
    armed = ArmedSyncPoints(int(sys.argv[1]), [SyncPoint(point) for point in sys.argv[2:]])
    sys.exit(main(StatePaths(Path.home()), sync_points=armed))
