"""Where workflow files are found and read, as a port: a simulation has its own."""

from pathlib import Path
from typing import Final, Protocol, final

from pi_workflows.authoring.discovery import find
from pi_workflows.authoring.loading import source_identity


class Sources(Protocol):
    """The workflow files that a child can see."""

    def find(self, reference: str, project_dir: Path, home: Path) -> Path:
        """Return the absolute path of a workflow file; see `discovery.find`."""
        ...

    def identify(self, path: Path) -> tuple[bytes, str]:
        """Return its bytes and their SHA-256 in hexadecimal; see `loading.source_identity`."""
        ...

    def read(self, path: Path) -> bytes:
        """Return its bytes.

        Raises:
            OSError: it is gone or cannot be read.
        """
        ...


@final
class DiskSources:
    """The files on disk."""

    def find(self, reference: str, project_dir: Path, home: Path) -> Path:
        """See `pi_workflows.authoring.discovery.find`."""
        return find(reference, project_dir, home)

    def identify(self, path: Path) -> tuple[bytes, str]:
        """See `pi_workflows.authoring.loading.source_identity`."""
        return source_identity(path)

    def read(self, path: Path) -> bytes:
        """Read the file."""
        return path.read_bytes()


DISK_SOURCES: Final = DiskSources()
