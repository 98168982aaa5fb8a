"""Where the state of one user lives; pure path arithmetic, nothing is touched."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOCKET_PATH_BYTES_MAX: Final = 103 if sys.platform == "darwin" else 107
"""Longest usable Unix socket path in bytes: `sun_path` less its terminating NUL."""


@dataclass(frozen=True, slots=True)
class StatePaths:
    """All paths under one user's home directory.

    Attributes:
        home: the user's home; tests give a temporary one.
    """

    home: Path

    @property
    def state_dir(self) -> Path:
        """Directory of everything durable, mode 0700."""
        return self.home / ".pi" / "agent" / "workflows"

    @property
    def database(self) -> Path:
        """The one database file, mode 0600."""
        return self.state_dir / "state.sqlite"

    @property
    def host_dir(self) -> Path:
        """Runtime files of the server, mode 0700."""
        return self.state_dir / "host"

    @property
    def socket(self) -> Path:
        """Client socket, mode 0600."""
        return self.host_dir / "host.sock"

    @property
    def lock(self) -> Path:
        """Information about the holder of the lock; the flock is on `flock`."""
        return self.host_dir / "host.lock.json"

    @property
    def flock(self) -> Path:
        """Stable file whose exclusive flock is the lock; never unlinked."""
        return self.host_dir / "host.lock"

    @property
    def registry(self) -> Path:
        """Children of the server that a successor may have to end."""
        return self.host_dir / "host.children.json"

    @property
    def logs(self) -> Path:
        """JSON-lines logs, mode 0700."""
        return self.host_dir / "logs"

    @property
    def older_state(self) -> tuple[Path, ...]:
        """Places of state from before the single database; its presence forbids creation."""
        return (
            self.state_dir / "runs",
            self.state_dir / "decisions",
            self.state_dir / "controllers",
            self.home / ".config" / "pi-workflows" / "telegram-state.sqlite",
        )
