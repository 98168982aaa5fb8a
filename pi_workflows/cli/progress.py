"""Ways to show a run's progress that need no terminal."""

from types import TracebackType
from typing import Protocol, Self

from pi_workflows.cli import output
from pi_workflows.cli.overriding import override
from pi_workflows.cli.render import GLYPH_UPDATE, retrying_lines, step_line, text_of
from pi_workflows.cli.updates import UpdateNews
from pi_workflows.cli.views import member, steps_of
from pi_workflows.protocol.canonical import JsonObject, JsonValue


class Progress(Protocol):
    """Is entered before the first view and left after the last one."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last view as it stands."""

    def show(self, view: JsonObject) -> None:
        """Show one run view; each replaces the one before."""

    def lost(self) -> None:
        """Say that the server is gone for now; the last view may be out of date."""

    def tick(self) -> None:
        """Be called about once a second, for what moves without the run."""


class Silent:
    """Shows nothing: the caller prints one document at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def show(self, view: JsonObject) -> None:
        """Show nothing."""

    def lost(self) -> None:
        """Say nothing."""

    def tick(self) -> None:
        """Move nothing."""


class ViewLines(Silent):
    """Prints every view as one line of JSON to standard output."""

    @override
    def show(self, view: JsonObject) -> None:
        """Print the view."""
        output.print_json(view)


class StepLines(Silent):
    """Prints a line per finished step, per wait for a try and per milestone to standard error."""

    def __init__(self) -> None:
        self._shown = 0
        self._lost = False
        self._named = False
        self._retrying: JsonValue = None
        self._news = UpdateNews()

    @override
    def show(self, view: JsonObject) -> None:
        """Print what was not printed yet, and how many steps a window left out."""
        self._lost = False
        if not self._named:
            output.tell(f"run {text_of(member(view, 'manifest').get('runId'))}")
            self._named = True
        steps = [step for step in steps_of(view) if _index(step) >= self._shown]
        if steps and (skipped := _index(steps[0]) - self._shown) > 0:
            output.tell(f"… {skipped} earlier steps")
        for step in steps:
            output.tell(step_line(step))
            self._shown = _index(step) + 1
        retrying = view.get("retrying")
        if retrying != self._retrying:
            self._retrying = retrying
            for line in retrying_lines(view, when=True):
                output.tell(line)
        for line in self._news.lines(view):
            output.tell(f"{GLYPH_UPDATE} {line}")

    @override
    def lost(self) -> None:
        """Say it once per loss."""
        if not self._lost:
            output.tell("the connection to the server is lost; trying again")
        self._lost = True


def _index(step: JsonObject) -> int:
    index = step.get("stepIndex")
    return index if isinstance(index, int) else 0
