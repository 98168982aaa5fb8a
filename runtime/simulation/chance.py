"""Chance and ids that are a function of one seed, in streams that do not disturb each other."""

import random
import uuid
from typing import Final, TypeAlias, final

Draws: TypeAlias = random.Random
"""A stream of numbers."""


@final
class Chance:
    """Hands out named streams of random numbers.

    A stream depends on the seed and its name alone: drawing more from one shifts no other, and no
    hash of the interpreter's takes part.
    """

    def __init__(self, seed: int) -> None:
        self.seed: Final = seed

    def stream(self, name: str) -> Draws:
        """Return the stream of this name, from its beginning."""
        return random.Random(f"{self.seed}/{name}")  # noqa: S311 - repeatable, no secret


@final
class SeededIds:
    """Ids and tokens from a stream; see `runtime.world.IdSource`."""

    def __init__(self, stream: Draws) -> None:
        self._stream: Final = stream

    def new_uuid(self) -> str:
        """Return the next UUID of version 4."""
        return str(uuid.UUID(int=self._stream.getrandbits(128), version=4))

    def token_bytes(self, count: int = 32) -> bytes:
        """Return the next bytes; anybody with the seed can guess them."""
        return self._stream.randbytes(count)
