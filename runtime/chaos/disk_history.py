"""Which contents a disk may hold after a power cut.

Everything that somebody was told must be there, and nothing may be that was not begun. A version
is what the database holds after one commit. Positions count operations of a disk: at position 3
three operations are done.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Version:
    """One content.

    Attributes:
        content: of the database, byte for byte; None: there is no database yet.
        begun: position before the first operation of its commit; -1: in a life before this one.
        told: first position at which somebody may rely on it; None while nobody does.
        name: what made it, in words.
    """

    content: bytes | None
    begun: int
    told: int | None
    name: str


@dataclass(slots=True)
class History:
    """The versions of one life of a disk, oldest first."""

    versions: list[Version] = field(default_factory=list)

    def add(self, content: bytes | None, begun: int, name: str) -> None:
        """Note a version that nobody relies on yet."""
        self.versions.append(Version(content, begun, None, name))

    def tell(self, position: int) -> None:
        """Note that from now on somebody relies on the newest version."""
        newest = self.versions[-1]
        if newest.told is None:
            newest.told = position

    def certain(self, position: int) -> int:
        """Return the index of the oldest version that may be found after a power cut."""
        return max(
            (
                index
                for index, version in enumerate(self.versions)
                if version.told is not None and version.told <= position
            ),
            default=0,
        )

    def newest(self, position: int) -> int:
        """Return the index of the newest version that may be found after a power cut."""
        return max(
            (index for index, version in enumerate(self.versions) if version.begun < position),
            default=0,
        )
