"""What every test process has: temporary folders in which the path of a Unix socket fits."""

import os
import tempfile

from tools.side_by_side import TEMPORARY_BYTES_MAX


def pytest_configure() -> None:
    """Use /tmp where TMPDIR is too long; processes that a test starts then do so, too."""
    if len(os.fsencode(tempfile.gettempdir())) > TEMPORARY_BYTES_MAX:
        os.environ["TMPDIR"] = "/tmp"  # noqa: S108 - private folders are made inside
        tempfile.tempdir = None
