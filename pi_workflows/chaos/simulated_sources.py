"""Workflow files of a simulation: bytes by path, read by simulated resolvers and runners."""

import hashlib
from pathlib import Path
from typing import Final, final

from pi_workflows.authoring.definition import WORKFLOW_SUFFIX
from pi_workflows.authoring.errors import SourceUnknown

PROJECT: Final = Path("/simulated/project")
"""The one project folder of a simulation; on no real disk."""


@final
class SimulatedSources:
    """Files of the project; see `pi_workflows.runner.sources.Sources`.

    Attributes:
        files: content by absolute path; a change is what an edit of the file would be.
    """

    def __init__(self, workflows: dict[str, str]) -> None:
        """`workflows` maps names to the source of their files."""
        self.files: Final[dict[Path, bytes]] = {
            PROJECT / ".pi" / "workflows" / f"{name}{WORKFLOW_SUFFIX}": source.encode()
            for name, source in workflows.items()
        }

    def find(self, reference: str, project_dir: Path, home: Path) -> Path:  # noqa: ARG002
        """Return the path of the workflow of this name."""
        path = project_dir / ".pi" / "workflows" / f"{reference}{WORKFLOW_SUFFIX}"
        if path not in self.files:
            raise SourceUnknown(reference, f'there is no workflow "{reference}" here.')
        return path

    def identify(self, path: Path) -> tuple[bytes, str]:
        """Return bytes and SHA-256."""
        source = self.files[path]
        return source, hashlib.sha256(source).hexdigest()

    def read(self, path: Path) -> bytes:
        """Return the bytes."""
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file", str(path)) from None
