"""How far an exploration is: bars and counts on a terminal, lines elsewhere."""

from collections import Counter
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pi_workflows.chaos.campaign import Campaign, Item
from pi_workflows.chaos.spreading import monotonic_s
from pi_workflows.cli import output, render
from pi_workflows.cli.drawing import Drawing
from pi_workflows.cli.overriding import override
from runtime.chaos.outcome import Finding, Tally

_BAR_CELLS: Final = 24
_SECOND_MS: Final = 1_000


class ExplorationProgress(Protocol):
    """Is entered before the first task and left after the last one."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave what was shown, or take it away."""

    def begun(self, item: Item) -> None:
        """A process has begun with its part."""

    def told(self, item: Item, unit: str, count: int) -> None:
        """So many more were explored."""

    def ended(self, item: Item, tallies: list[Tally]) -> None:
        """All parts have ended."""

    def shrinking(self, finding: Finding) -> None:
        """A finding is being made small."""

    def tick(self) -> None:
        """Some time has passed."""


class Unshown:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def begun(self, item: Item) -> None:
        """Show nothing."""

    def told(self, item: Item, unit: str, count: int) -> None:
        """Show nothing."""

    def ended(self, item: Item, tallies: list[Tally]) -> None:
        """Show nothing."""

    def shrinking(self, finding: Finding) -> None:
        """Show nothing."""

    def tick(self) -> None:
        """Show nothing."""


class ItemLines(Unshown):
    """Prints a line to standard error for each scenario that an engine has done with."""

    @override
    def ended(self, item: Item, tallies: list[Tally]) -> None:
        """Print the counts."""
        output.tell(item_line(item, tallies))

    @override
    def shrinking(self, finding: Finding) -> None:
        """Say it, since it takes its time."""
        output.tell(f"… {shrinking_text(finding)}")


class LiveFigures(Drawing, Unshown):
    """Draws what is under way, what was promised and how much of it there is."""

    def __init__(self, campaign: Campaign, console: Console | None = None) -> None:
        super().__init__(console, is_kept=False)
        self._campaign: Final = campaign
        self._began_at: Final = monotonic_s()
        self._open: Final[dict[Item, Counter[str]]] = {}
        self._done: Final[Counter[str]] = Counter()
        self._ended = 0
        self._shrinking = ""

    @override
    def __enter__(self) -> Self:
        super().__enter__()
        self.tick()
        return self

    @override
    def begun(self, item: Item) -> None:
        """Add a line for it."""
        self._open[item] = Counter()

    @override
    def told(self, item: Item, unit: str, count: int) -> None:
        """Count; the next tick draws."""
        self._open[item][unit] += count

    @override
    def ended(self, item: Item, tallies: list[Tally]) -> None:
        """Leave its line behind, above what is drawn."""
        self._open.pop(item, None)
        self._ended += 1
        self._done.update({tally.unit: 0 for tally in tallies})
        for tally in tallies:
            self._done[tally.unit] += tally.done
        style = "red" if any(tally.broken for tally in tallies) else ""
        self._console.print(Text(item_line(item, tallies), style), soft_wrap=True)
        self.tick()

    @override
    def shrinking(self, finding: Finding) -> None:
        """Say it below the others."""
        self._shrinking = shrinking_text(finding)
        self.tick()

    @override
    def tick(self) -> None:
        """Draw anew."""
        self.draw(self.page())

    def page(self) -> Group:
        """Return what is drawn now."""
        took = render.duration((monotonic_s() - self._began_at) * _SECOND_MS)
        of = self._campaign.budget_s
        budget = "" if of is None else f" of {render.duration(of * _SECOND_MS)}"
        items = len(self._campaign.items)
        parts: list[RenderableType] = [
            Text(f"exploring  {self._ended} of {items} done  {took}{budget}", "bold")
        ]
        for item, counts in self._open.items():
            said = ", ".join(f"{count:,} {unit}" for unit, count in counts.items())
            parts.append(Text(f"▸ {item.engine} {item.ref}  {said}".rstrip(), "cyan"))
        if self._shrinking:
            parts.append(Text(f"▸ {self._shrinking}", "yellow"))
        if self._campaign.promised:
            parts.append(self._promised())
        return Group(*parts)

    def _promised(self) -> Table:
        grid = Table.grid(padding=(0, 1))
        under_way = sum(self._open.values(), Counter[str]())
        for unit, promised in self._campaign.promised.items():
            done = self._done[unit] + under_way[unit]
            bar = ProgressBar(total=promised, completed=min(done, promised), width=_BAR_CELLS)
            grid.add_row(Text(unit), bar, Text(f"{done:,} of {promised:,}"))
        return grid


def item_line(item: Item, tallies: list[Tally]) -> str:
    """Return `✓ orders one_winner  84,492 orders, complete  12.0 s`."""
    glyph = "✗" if any(tally.broken or tally.not_deterministic for tally in tallies) else "✓"
    counts = ", ".join(
        f"{tally.done:,} {tally.unit}{', complete' if tally.complete else ''}" for tally in tallies
    )
    took = render.duration(max((tally.seconds for tally in tallies), default=0.0) * _SECOND_MS)
    return f"{glyph} {item.engine} {item.ref}  {counts}  {took}"


def shrinking_text(finding: Finding) -> str:
    """Return what is being done to a finding."""
    return (
        f"making the break of {finding.promise} in {finding.scenario} small:"
        f" {len(finding.choices)} unusual decisions"
    )
