"""What every test process has: a short temporary folder, its signals, and no hurry."""

import os
import signal
import tempfile

from hypothesis import settings

from tools.side_by_side import TEMPORARY_BYTES_MAX


def pytest_configure() -> None:
    """Use /tmp where TMPDIR is too long, also in processes that a test starts.

    A shell without job control has what it puts into the background ignore SIGINT, and so would
    every process of a test. No example of Hypothesis may fail for having taken long.
    """
    if len(os.fsencode(tempfile.gettempdir())) > TEMPORARY_BYTES_MAX:
        os.environ["TMPDIR"] = "/tmp"  # noqa: S108 - private folders are made inside
        tempfile.tempdir = None
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("unhurried", settings.default, deadline=None)
    settings.load_profile("unhurried")
