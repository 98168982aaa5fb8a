"""The best process table this system has, chosen once."""

import sys

if sys.platform == "linux":
    from runtime.procfs import SCHEME, pids, read_process, started_with
else:
    from runtime.psutil_table import SCHEME, pids, read_process, started_with

__all__ = ["SCHEME", "pids", "read_process", "started_with"]
