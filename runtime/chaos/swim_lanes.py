"""A timeline as lanes of text: one column for each who acts, one row for each moment.

A lane that waits shows a line. It is blank before its first moment and once it is killed, and
dotted while it stands still. `g2` is the generation of the lease that the moment was under; it is
never cut off.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from runtime.chaos.outcome import Moment

CELL_MIN: Final = 12
"""Narrower columns say nothing; then the rows name their lane instead."""

ROWS_MAX: Final = 60

_TIME_CELLS: Final = 10
_GAP: Final = "  "
_WAITS: Final = "│"
_STANDS_STILL: Final = "┊"
_DEAD: Final = frozenset({"killed", "kill", "ended", "SIGKILL"})
_STILL: Final = frozenset({"paused", "pause", "SIGSTOP"})
_DIGEST: Final = re.compile(r"[0-9a-f]{16,}")
_DIGEST_SHOWN: Final = 6
_SECOND_MS: Final = 1_000
_HOUR_S: Final = 3_600


def swim_lanes(timeline: Sequence[Moment], width: int, rows_max: int = ROWS_MAX) -> list[str]:
    """Return the lines, none wider than `width`; [] of an empty timeline.

    Args:
        width: in cells, at least 40.
        rows_max: of a longer timeline the end is shown, and how much was left out.
    """
    if not timeline:
        return []
    shown = list(timeline[-rows_max:])
    lanes = list(dict.fromkeys(moment.lane for moment in shown))
    left_out = len(timeline) - len(shown)
    lines = [f"… {left_out:,} earlier"] if left_out else []
    cells = _cells(shown, lanes, width - _TIME_CELLS - len(_GAP) * len(lanes))
    if cells is None:
        return lines + [_sentence(moment, lanes, width) for moment in shown]
    return lines + _table(shown, cells)


def moment_text(moment: Moment, cells_max: int | None = None) -> str:
    """Return `claim → held  g2`; of a digest only its beginning.

    Args:
        cells_max: what is longer is cut off before the generation, which says whose it was; None
            cuts nothing off.
    """
    text = f"{moment.what} → {moment.result}" if moment.result else moment.what
    text = _DIGEST.sub(lambda found: f"{found[0][:_DIGEST_SHOWN]}…", text)
    under = "" if moment.generation is None else f"{_GAP}g{moment.generation}"
    return (text if cells_max is None else _cut(text, cells_max - len(under))) + under


def _cells(shown: Sequence[Moment], lanes: Sequence[str], room: int) -> dict[str, int] | None:
    """Return how wide each lane is: what it needs, or the widest ones alike; None: no room."""
    needed = {lane: len(lane) for lane in lanes}
    for moment in shown:
        needed[moment.lane] = max(needed[moment.lane], len(moment_text(moment)))
    widest = max(needed.values())
    while sum(min(each, widest) for each in needed.values()) > room:
        widest -= 1
        if widest < CELL_MIN:
            return None
    return {lane: min(each, widest) for lane, each in needed.items()}


def _table(shown: Sequence[Moment], cells: Mapping[str, int]) -> list[str]:
    state = dict.fromkeys(cells, "")
    lines = [
        _row("at", {lane: lane for lane in cells}, cells),
        _row("", {lane: "─" * width for lane, width in cells.items()}, cells),
    ]
    for moment in shown:
        said = state | {moment.lane: moment_text(moment, cells[moment.lane])}
        lines.append(_row(_time(moment.at_ms), said, cells))
        state[moment.lane] = _after(moment)
    return lines


def _after(moment: Moment) -> str:
    said = {moment.what, moment.result}
    if said & _DEAD:
        return ""
    return _STANDS_STILL if said & _STILL else _WAITS


def _row(time: str, said: Mapping[str, str], cells: Mapping[str, int]) -> str:
    columns = [f"{_cut(said[lane], width):<{width}}" for lane, width in cells.items()]
    return _GAP.join([f"{time:>{_TIME_CELLS}}", *columns]).rstrip()


def _sentence(moment: Moment, lanes: Sequence[str], width: int) -> str:
    widest = max(map(len, lanes))
    line = f"{_time(moment.at_ms):>{_TIME_CELLS}}{_GAP}{moment.lane:<{widest}}{_GAP}"
    if width - len(line) < CELL_MIN:
        return _cut(f"{line}{moment_text(moment)}", width)
    return f"{line}{moment_text(moment, width - len(line))}"


def _cut(text: str, cells: int) -> str:
    line = " ".join(text.split("\n"))
    return line if len(line) <= cells else f"{line[: cells - 1]}…"


def _time(at_ms: int) -> str:
    """Return `31.0 s`; from an hour on `1 h 00 m`, with a sign when a clock went back."""
    seconds = abs(at_ms) / _SECOND_MS
    sign = "-" if at_ms < 0 else ""
    if seconds < _HOUR_S:
        return f"{sign}{seconds:.3f} s"
    return f"{sign}{int(seconds // _HOUR_S)} h {int(seconds % _HOUR_S // 60):02d} m"
