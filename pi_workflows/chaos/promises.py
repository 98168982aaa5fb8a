"""The promises of `docs/guarantees.md` that a scenario can hold the product to."""

from collections.abc import Sequence
from typing import Final

from runtime.chaos.declaring import require_known

PROMISES: Final = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P12")


def require_promises(named: Sequence[str]) -> None:
    """Refuse a scenario that names a promise nobody has given.

    Raises:
        ScenarioRefused: says which line does.
    """
    require_known("promise", named, PROMISES, "promises")
