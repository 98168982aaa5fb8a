"""What a look at the outside world tells of an effect: it is there, it is not, or no answer."""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Applied(Generic[T_co]):
    """The effect is there.

    Attributes:
        value: what the node's function would have returned; it becomes the node's output.
    """

    value: T_co


@dataclass(frozen=True, slots=True)
class Absent:
    """The effect is not there and will not appear any more: it may be carried out."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The look gave no answer: an operator has to decide.

    Attributes:
        reason: why, for the operator; None says nothing.
    """

    reason: str | None = None


Observation: TypeAlias = Applied[T] | Absent | Unknown
"""What an observing function returns; the type parameter is the node's output."""


def applied(value: T) -> Applied[T]:
    """Say that the effect is there; `value` becomes the node's output."""
    return Applied(value)


def absent() -> Absent:
    """Say that the effect is provably not there: it is carried out, as its next numbered try."""
    return Absent()


def unknown(reason: str | None = None) -> Unknown:
    """Say that the look gave no answer: the effect is ambiguous and the run waits for a person.

    Args:
        reason: why, shown to the operator; None says nothing.
    """
    return Unknown(reason)
