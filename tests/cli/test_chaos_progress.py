"""How far an exploration is, on a terminal and elsewhere."""

import io

import pytest
from rich.console import Console

from pi_workflows.chaos.campaign import Campaign, Item
from pi_workflows.cli.chaos_progress import ItemLines, LiveFigures, item_line
from runtime.chaos.outcome import Finding, Tally

WINNER = Item(ref="one_winner", engine="orders")
SEEDS = Item(ref="storm", engine="sim")
CAMPAIGN = Campaign(items=(WINNER, SEEDS), promised={"orders": 84_000, "seeds": 500}, budget_s=300)
FINDING = Finding("storm", "sim", "P3", "two winners", {"kill#1": "server"}, 7, (), "ab" * 32)


def tally(**changes: object) -> Tally:
    made = Tally("one_winner", "orders", "orders", explored=84_492, complete=True, seconds=12.0)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def drawn(live: LiveFigures) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(live.page())
    text = console.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def test_a_line_says_what_was_explored_and_whether_that_is_all() -> None:
    assert item_line(WINNER, [tally()]) == "✓ orders one_winner  84,492 orders, complete  12.0 s"
    assert item_line(WINNER, [tally(broken=1, complete=False)]).startswith("✗ orders one_winner")
    assert item_line(WINNER, [tally(not_deterministic=["seed 1"])]).startswith("✗")


def test_counts_rise_while_it_is_under_way() -> None:
    screen = io.StringIO()
    with LiveFigures(CAMPAIGN, Console(file=screen, force_terminal=True, width=100)) as live:
        live.begun(WINNER)
        live.told(WINNER, "orders", 30_000)
        live.told(WINNER, "orders", 12_000)
        page = drawn(live)
        assert "0 of 2 done" in page
        assert "of 5 m 00 s" in page
        assert "▸ orders one_winner  42,000 orders" in page
        assert "42,000 of 84,000" in page
        assert "0 of 500" in page
        live.ended(WINNER, [tally()])
        live.begun(SEEDS)
        live.shrinking(FINDING)
        page = drawn(live)
        assert "1 of 2 done" in page
        assert "84,492 of 84,000" in page
        assert "▸ sim storm" in page
        assert "making the break of P3 in storm small: 1 unusual decisions" in page
    assert "✓ orders one_winner  84,492 orders, complete  12.0 s" in screen.getvalue()


def test_elsewhere_a_line_is_printed_for_each_that_has_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ItemLines() as lines:
        lines.begun(WINNER)
        lines.told(WINNER, "orders", 1)
        lines.tick()
        lines.ended(WINNER, [tally()])
        lines.shrinking(FINDING)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "✓ orders one_winner  84,492 orders, complete  12.0 s",
        "… making the break of P3 in storm small: 1 unusual decisions",
    ]
