"""The settings that one try of a node runs with."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class SettingsCopy(Generic[T_co]):
    """The settings that one try of a node runs with; later changes do not reach it.

    Attributes:
        scope_id: names the run's own settings, or those of one invocation.
        change_number: how many changes went before; 0 is the initial settings.
    """

    scope_id: str
    change_number: int
    value: T_co
