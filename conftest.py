"""What every test process has: room for the path of a socket, and no hurry on a busy machine."""

import os
import tempfile

from hypothesis import settings

from tools.side_by_side import TEMPORARY_BYTES_MAX


def pytest_configure() -> None:
    """Use /tmp where TMPDIR is too long, also in processes that a test starts.

    No example of Hypothesis may fail for having taken long.
    """
    if len(os.fsencode(tempfile.gettempdir())) > TEMPORARY_BYTES_MAX:
        os.environ["TMPDIR"] = "/tmp"  # noqa: S108 - private folders are made inside
        tempfile.tempdir = None
    settings.register_profile("unhurried", settings.default, deadline=None)
    settings.load_profile("unhurried")
