"""A part of the terminal that is drawn anew whenever there is something new to show."""

from types import TracebackType
from typing import Final, Self

from rich.console import Console, RenderableType
from rich.live import Live


class Drawing:
    """Is entered before the first `draw`; nothing refreshes it but `draw`, and it has no thread.

    It goes to standard error, so that standard output holds the result alone.
    """

    def __init__(self, console: Console | None = None, *, is_kept: bool) -> None:
        """Draw nothing yet.

        Args:
            console: None is standard error.
            is_kept: leave the last drawing behind in the end, and do not take it away.
        """
        self._console: Final = console or Console(stderr=True)
        self._live: Final = Live(console=self._console, auto_refresh=False, transient=not is_kept)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def draw(self, page: RenderableType) -> None:
        """Draw a page in the place of the last one."""
        self._live.update(page, refresh=True)
