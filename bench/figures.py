"""What a benchmark measured: samples with a unit, ratios of samples, and how both are shown."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue

_NAME_WIDTH: Final = 44


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity.

    Attributes:
        name: stable; scripts look lines up by it.
        unit: what one sample counts, for example `commands/s`; empty for a ratio.
        samples: as measured, at least one.
    """

    name: str
    unit: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples)

    def line(self) -> str:
        """Return the figure as one line: name, median, unit, and the spread of the samples."""
        shown = f"{self.name:<{_NAME_WIDTH}} {_number(self.median):>9}"
        if len(self.samples) == 1:
            return f"{shown} {self.unit}".rstrip()
        spread = f"{_number(min(self.samples))} .. {_number(max(self.samples))}"
        return f"{shown} {self.unit:<11} {spread} ({len(self.samples)})"

    def document(self) -> JsonObject:
        """Return the figure for scripts."""
        samples: list[JsonValue] = [round(sample, 4) for sample in self.samples]
        return {
            "unit": self.unit,
            "min": round(min(self.samples), 4),
            "median": round(self.median, 4),
            "max": round(max(self.samples), 4),
            "samples": samples,
        }


@dataclass(slots=True)
class Section:
    """Figures under one heading.

    Attributes:
        note: what a reader must know to read them.
    """

    title: str
    note: str
    figures: list[Figure] = field(default_factory=list)

    def add(self, name: str, unit: str, samples: Iterable[float]) -> None:
        """Append a figure."""
        self.figures.append(Figure(name, unit, tuple(samples)))

    def add_ratio(self, name: str, of: Sequence[float], to: Sequence[float]) -> None:
        """Append the ratios of two figures that were measured in turns, round by round."""
        self.add(name, "", (one / other for one, other in zip(of, to, strict=True)))

    def text(self) -> str:
        """Return the section as a block of lines."""
        lines = (figure.line() for figure in self.figures)
        return "\n".join([self.title, self.note, *(f"  {line}" for line in lines)])


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least `share` (0 to 1) of them do not exceed."""
    return sorted(samples)[max(0, math.ceil(len(samples) * share) - 1)]


def document(sections: Iterable[Section]) -> JsonObject:
    """Return all figures by name."""
    return {figure.name: figure.document() for part in sections for figure in part.figures}


def _number(value: float) -> str:
    """Show about three digits."""
    decimals = max(0, 3 - len(str(int(value))))
    return f"{value:,.{decimals}f}"
