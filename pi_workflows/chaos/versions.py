"""The versions that the meaning of a decision may depend on."""

import importlib.metadata
import platform

from pi_workflows.protocol.version import PACKAGE_VERSION
from store.opening import sqlite_version


def versions() -> dict[str, str]:
    """Return our own, Python's, SQLite's and trio's version by their names in a replay file."""
    return {
        "piWorkflows": PACKAGE_VERSION,
        "python": platform.python_version(),
        "sqlite": sqlite_version(),
        "trio": importlib.metadata.version("trio"),
    }
