"""What the disk under the database charges for one durable write, and how busy others are."""

import os
import time
from pathlib import Path
from typing import Final

from bench.figures import Section, percentile

WRITES: Final = 200
_PAGE: Final = b"\0" * 4096


def measure_disk(folder: Path, writes: int = WRITES) -> Section:
    """Append `writes` pages to a file in `folder`, each followed by an fsync."""
    path = folder / "fsync"
    costs_us = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(writes):
            begun = time.perf_counter()
            os.write(descriptor, _PAGE)
            os.fsync(descriptor)
            costs_us.append((time.perf_counter() - begun) * 1e6)
    finally:
        os.close(descriptor)
        path.unlink()
    section = Section(
        "Machine", f"Load of others before the start; 4 KiB appended and fsynced in {folder}."
    )
    section.add("load_average_1_min", "", [os.getloadavg()[0]])
    section.add("fsync_p50", "us", [percentile(costs_us, 0.50)])
    section.add("fsync_p99", "us", [percentile(costs_us, 0.99)])
    return section
