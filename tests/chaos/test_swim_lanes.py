"""A timeline is drawn as lanes that fit the terminal."""

import pytest

from runtime.chaos.outcome import Moment
from runtime.chaos.swim_lanes import moment_text, swim_lanes

STALE = (
    Moment(0, "worker-0", "claim", "held", 1),
    Moment(0, "worker-0", "paused"),
    Moment(0, "clock", "+31 s"),
    Moment(31_000, "worker-1", "claim", "held", 2),
    Moment(31_000, "worker-0", "goes on"),
    Moment(31_000, "worker-0", "write", "written", 1),
    Moment(31_000, "worker-1", "killed"),
    Moment(31_000, "check", "fenced", "broken"),
)

DRAWN = """\
        at  worker-0             clock  worker-1          check
            ───────────────────  ─────  ────────────────  ───────────────
   0.000 s  claim → held  g1
   0.000 s  paused
   0.000 s  ┊                    +31 s
  31.000 s  ┊                    │      claim → held  g2
  31.000 s  goes on              │      │
  31.000 s  write → written  g1  │      │
  31.000 s  │                    │      killed
  31.000 s  │                    │                        fenced → broken"""


def test_each_actor_has_a_lane_and_each_moment_a_row() -> None:
    assert "\n".join(swim_lanes(STALE, 90)) == DRAWN


@pytest.mark.parametrize("width", [40, 60, 63, 64, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = (*STALE, Moment(4_000_000, "clock", "a word\nand " * 30))
    lines = swim_lanes(long, width)
    assert max(map(len, lines)) <= width
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize("width", range(40, 100, 3))
def test_a_generation_is_never_cut_off(width: int) -> None:
    lines = "\n".join(swim_lanes(STALE, width))
    assert [lines.count(f"  g{number}") for number in (1, 2)] == [2, 1]


def test_only_the_widest_lanes_are_made_narrower() -> None:
    [_, _, first, *_] = swim_lanes(STALE[2:], 70)
    assert first == "   0.000 s  +31 s"
    [header, *_] = swim_lanes(STALE, 70)
    assert header == "        at  worker-0          clock  worker-1          check"


def test_rows_name_their_lane_where_there_is_no_room_for_lanes() -> None:
    lines = swim_lanes(STALE, 50)
    assert lines[0] == "   0.000 s  worker-0  claim → held  g1"
    assert len(lines) == len(STALE)


def test_of_a_long_timeline_the_end_is_shown() -> None:
    long = tuple(Moment(n, "clock", f"tick {n}") for n in range(5_000))
    lines = swim_lanes(long, 80, rows_max=10)
    assert lines[0] == "… 4,990 earlier"
    assert lines[-1].split() == ["4.999", "s", "tick", "4999"]
    assert swim_lanes((), 80) == []


def test_of_a_digest_only_its_beginning_is_shown() -> None:
    assert moment_text(Moment(0, "server", "lease.claimed", f"resource-{'0e4f' * 10}", 3)) == (
        "lease.claimed → resource-0e4f0e…  g3"
    )


def test_hours_and_clocks_that_go_back_are_readable() -> None:
    lines = swim_lanes((Moment(-3_600_000, "clock", "a"), Moment(7_260_000, "clock", "b")), 80)
    assert lines[2].split("a")[0].strip() == "-1 h 00 m"
    assert lines[3].split("b")[0].strip() == "2 h 01 m"
