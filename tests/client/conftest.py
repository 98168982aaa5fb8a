"""What the client tests share: a short home directory with the runtime folder made."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_workflows.protocol.paths import StatePaths


@pytest.fixture
def paths() -> Iterator[StatePaths]:
    # pytest's own folders are too deep for a socket path.
    with tempfile.TemporaryDirectory(prefix="pw-") as home:
        paths = StatePaths(Path(home))
        paths.logs.mkdir(parents=True)
        yield paths
