"""Project folders by id."""

from dataclasses import dataclass
from typing import Final

from store.errors import StoreCorrupt
from store.transaction import Reading


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """One folder, known by its canonical absolute path."""

    project_id: str
    canonical_path: str
    created_at: int


SELECT_PROJECT: Final = """
    SELECT project_id, canonical_path, created_at FROM projects WHERE project_id = :project_id
"""

ROW_STATEMENTS: Final = {"SELECT_PROJECT": ProjectRow}


def path_of(reading: Reading, project_id: str | None) -> str:
    """Return the folder in which a run's children work.

    Raises:
        StoreCorrupt: the run names no project, or one that is missing.
    """
    row = reading.one(ProjectRow, SELECT_PROJECT, {"project_id": project_id})
    if row is None:
        raise StoreCorrupt("a run's project is missing")
    return row.canonical_path
