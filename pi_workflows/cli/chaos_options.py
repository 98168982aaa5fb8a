"""How spans, ranges of seeds and reports are said on the command line; callbacks of options."""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from pi_workflows.cli.overriding import override

FORMATS: Final = ("text", "json", "junit")

_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|)")
_UNIT_S: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0}
_SEEDS: Final = re.compile(r"(\d{1,18}):(\d{1,18})")


@dataclass(frozen=True, slots=True)
class ReportTo:
    """A report that is wanted.

    Attributes:
        format: `text`, `json` or `junit`.
        file: where it goes; None is standard output.
    """

    format: str
    file: Path | None


def span_s(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> float | None:
    """Return the seconds of `90s`, `5m` or `3h`; a bare number is seconds, None stays None."""
    if value is None:
        return None
    found = _SPAN.fullmatch(value)
    if found is None or not float(found[1]):
        raise click.BadParameter(f"{value!r} is no span; say 90s, 5m or 3h.")
    return float(found[1]) * _UNIT_S[found[2]]


def seeds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> range | None:
    """Return the range of `A:B`: from A, up to but without B; None stays None."""
    if value is None:
        return None
    found = _SEEDS.fullmatch(value)
    named = range(0) if found is None else range(int(found[1]), int(found[2]))
    if not named:
        raise click.BadParameter(f"{value!r} is no range; say 0:2000, the end is not included.")
    return named


def reports(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[ReportTo, ...]:
    """Return what each `FORMAT` or `FORMAT:FILE` asks for."""
    wanted = []
    for value in values:
        name, _, file = value.partition(":")
        if name not in FORMATS:
            raise click.BadParameter(f"{name!r} is no report; say {', '.join(FORMATS)}.")
        wanted.append(ReportTo(name, Path(file) if file else None))
    return tuple(wanted)


class EngineName(click.Choice[str]):
    """The name of an engine; a misspelt one is answered with the nearest."""

    @override
    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        known = list(self.choices)
        if value not in known:
            close = difflib.get_close_matches(value, known, n=1)
            meant = f"; did you mean {close[0]}?" if close else f"; say {', '.join(known)}."
            self.fail(f"there is no engine {value!r}{meant}", param, ctx)
        return value


def scenarios(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the shipped chaos scenarios, and files."""
    from pi_workflows.chaos.registry import SCENARIOS  # noqa: PLC0415 - heavy

    return [
        *(
            CompletionItem(name, help=scenario.summary)
            for name, scenario in SCENARIOS.items()
            if name.startswith(incomplete)
        ),
        CompletionItem(incomplete, type="file"),
    ]
