"""Keep the caller's own modules, and its service manager, out of the server.

The server half has short top-level names (`store`, `runtime`, `actors`). A folder of the caller's
on PYTHONPATH with a `store.py` of its own must not win there.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PATH_VARIABLE: Final = "PYTHONPATH"
HOME_VARIABLE: Final = "PYTHONHOME"
MANAGER_VARIABLES: Final = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
"""By them a service manager speaks to the process it has started, not to what that starts."""

OWN_ROOT: Final = str(Path(__file__).resolve().parent.parent.parent)
"""The folder this package was imported from."""


def server_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a spawned server: the caller's, less what is meant for it alone.

    An entry that holds this very package stays: it may be installed no other way.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in {HOME_VARIABLE, *MANAGER_VARIABLES}
    }
    if PATH_VARIABLE in kept:
        entries = [entry for entry in _entries(kept) if _is_own(entry)]
        del kept[PATH_VARIABLE]
        if entries:
            kept[PATH_VARIABLE] = os.pathsep.join(entries)
    return kept


def forget_foreign_paths(inherited: Mapping[str, str]) -> None:
    """Take the caller's PYTHONPATH out of this process's module search, before a server starts."""
    foreign = {entry for entry in _entries(inherited) if not _is_own(entry)}
    sys.path[:] = [entry for entry in sys.path if entry not in foreign]


def _entries(environment: Mapping[str, str]) -> list[str]:
    return [entry for entry in environment.get(PATH_VARIABLE, "").split(os.pathsep) if entry]


def _is_own(entry: str) -> bool:
    return str(Path(entry).resolve()) == OWN_ROOT
