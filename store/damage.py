"""What is said and raised of a file whose pages are not what SQLite wrote."""

from typing import ClassVar, Final

from store.errors import StoreCorrupt

STATE_DAMAGED_TEXT: Final = (
    "the database is damaged and is not served. Move state.sqlite with its -wal and -shm files "
    "away and put a sound copy in their place; without one, the next start creates an empty "
    "database."
)


class StateDamaged(StoreCorrupt):
    """SQLite itself found the damage: whoever met it, the file is served no longer."""

    code: ClassVar[str] = "STATE_DAMAGED"

    def __init__(self) -> None:
        super().__init__(STATE_DAMAGED_TEXT)
