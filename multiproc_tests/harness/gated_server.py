"""`server run` behind a gate: everything is imported, then standard input decides when it starts.

Several of these behind one gate start at the same instant, not one import after the other.
"""

import sys

import pi_workflows.server  # noqa: F401 - imported before the gate, that is the point
from pi_workflows.cli.main import main

if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    sys.argv[1:] = ["server", "run"]
    main()
