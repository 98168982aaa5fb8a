"""What an invariant is: a code and one query that finds the rows which break it."""

from dataclasses import dataclass

from store.transaction import Reading


@dataclass(frozen=True, slots=True)
class FoundRow:
    """One row that breaks an invariant.

    Attributes:
        run_id: empty when the row belongs to no run.
        detail: names kinds, states and counts; never an actor, a session or a payload.
    """

    run_id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant; `run_id` and `detail` as in `FoundRow`."""

    code: str
    run_id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant.

    Attributes:
        code: stable name that reports carry.
        statement: finds what breaks it; may use `:now` (UTC epoch ms) and must use `:limit`.
    """

    code: str
    statement: str

    def check(self, reading: Reading, limit: int) -> list[Violation]:
        """Return up to `limit` violations."""
        found = reading.many(FoundRow, self.statement, {"now": reading.now, "limit": limit})
        return [Violation(self.code, row.run_id, row.detail) for row in found]
