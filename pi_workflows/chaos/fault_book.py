"""Which faults still may happen in an exploration, and which have: every one is a named choice."""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Final, final

from runtime.chaos.choices import Choices
from runtime.chaos.scenario import Budgets
from runtime.simulation.chance import Chance, Draws
from runtime.simulation.trace import Trace

NOTHING: Final = "no"
"""The benign option of every fault."""

LANE: Final = "faults"


@final
class FaultBook:
    """Asks for each fault by name, within its budget, until all is calm.

    Attributes:
        choices: every decision of the exploration.
        fired: how often each kind of `Budgets` has really happened.
        is_calm: True as soon as nothing may fail any more.
    """

    def __init__(self, budgets: Budgets, choices: Choices, chance: Chance) -> None:
        """`chance` gives what is not worth a choice of its own: an instant within a second."""
        self.choices: Final = choices
        self.fired: Final[Counter[str]] = Counter()
        self.is_calm = False
        self._is_quiet = False
        self._budgets: Final = budgets
        self._chance: Final = chance
        self._left: Final = {
            it.name: value if isinstance(value, int) else len(value)
            for it in fields(budgets)
            for value in (getattr(budgets, it.name),)
        }
        self._used: Final[set[str]] = set()
        self._trace: Trace | None = None

    @property
    def budgets(self) -> Budgets:
        """What was declared."""
        return self._budgets

    @property
    def is_quiet(self) -> bool:
        """Whether the harness itself looks now."""
        return self._is_quiet

    def note_into(self, trace: Trace) -> None:
        """Have every fault noted."""
        self._trace = trace

    def may(self, kind: str) -> bool:
        """Say whether a fault of this kind may happen now."""
        return self._left[kind] > 0 and not self.is_calm and not self._is_quiet

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Let nothing fail meanwhile: the harness itself looks."""
        self._is_quiet = True
        try:
            yield
        finally:
            self._is_quiet = False

    def ask(self, kind: str, family: str, options: Sequence[str]) -> str | None:
        """Decide whether a fault happens here; None when nothing does.

        Args:
            kind: a field of `Budgets`.
            family: stable name of the place: "kill server at cmd.before_commit".
            options: what may happen, without the benign option.
        """
        return self.choose(family, options) if self.may(kind) else None

    def choose(self, family: str, options: Sequence[str]) -> str | None:
        """As `ask`, of faults of several kinds, each of which may happen now."""
        picked = self.choices.pick(family, (NOTHING, *options))
        return None if picked == NOTHING else picked

    def ask_once(self, kind: str, family: str, options: Sequence[str]) -> str | None:
        """As `ask`, of faults that happen at most once each."""
        return self.ask(kind, family, [it for it in options if it not in self._used])

    def enter(self, kind: str, what: str, option: str = "") -> None:
        """Enter a fault that has happened.

        Args:
            what: a few words for people.
            option: the option of `ask_once`, which is used up by it.
        """
        self._left[kind] -= 1
        self._used.add(option)
        self.fired[kind] += 1
        if self._trace is not None:
            self._trace.note(LANE, kind, what)

    def instant(self) -> Draws:
        """Return a stream that belongs to the decision made last, whatever else is decided."""
        made = self.choices.made
        return self._chance.stream(f"instant of {made[-1].name if made else ''}")
