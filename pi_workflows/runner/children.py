"""Where the workflows come from that a workflow includes by reference."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.discovery import is_path
from pi_workflows.authoring.loading import load_file
from pi_workflows.runner.sources import Sources


@final
class FoundChildren:
    """Finds them as a caller's workflow is found, when a run is about to be made.

    Attributes:
        hashes: SHA-256 in hexadecimal of the bytes that were run, by file.
    """

    def __init__(self, sources: Sources, project_dir: Path, home: Path) -> None:
        self._sources = sources
        self._project_dir = project_dir
        self._home = home
        self.hashes: dict[Path, str] = {}

    def locate(self, reference: str, including: Path, mount_path: str) -> Path:  # noqa: ARG002
        """See `compiling.Children`."""
        base = including.parent if is_path(reference) else self._project_dir
        return self._sources.find(reference, base, self._home)

    def load(self, path: Path) -> Definition[Any]:
        """See `compiling.Children`."""
        source, self.hashes[path] = self._sources.identify(path)
        return load_file(path, source)


@final
class PinnedChildren:
    """Takes those that were recorded when the run was made, wherever names lead to by now.

    Args:
        paths: the recorded file of every mount.
        contents: the checked bytes of these files.
    """

    def __init__(self, paths: Mapping[str, Path], contents: Mapping[Path, bytes]) -> None:
        self._paths = paths
        self._contents = contents

    def locate(self, reference: str, including: Path, mount_path: str) -> Path:  # noqa: ARG002
        """See `compiling.Children`.

        Raises:
            KeyError: nothing was recorded for the mount.
        """
        return self._paths[mount_path]

    def load(self, path: Path) -> Definition[Any]:
        """See `compiling.Children`."""
        return load_file(path, self._contents[path])
