"""The time that a conversation spends on an attempt: intervals of reported model turns.

Only what is measured counts. An interval is open while a model's turn works on the attempt; its
length is what the server's monotonic clock has counted since it was opened, which the samples
carry here. The instants beside it are labels of the wall clock, and nothing is computed from
them: a clock that is stepped, a machine that sleeps, a server that is down spend nothing.

A budget is the attempt's `timeout_ms`: NULL is none configured, 0 is unlimited, else what all its
intervals together may take. Attempts of code have none: their deadline is the runner's, and each
try has the whole of it.

Samples change no revision and leave no event (A §4).
"""

from dataclasses import dataclass
from typing import Final

from store.attempts import AttemptRow
from store.errors import IllegalTransitionError
from store.transaction import Reading, Transaction

_MACHINE: Final = "active interval"


@dataclass(frozen=True, slots=True)
class Interval:
    """One stretch of work on an attempt.

    Attributes:
        elapsed_ms: monotonic, as of its last sample; it never falls.
    """

    attempt_id: str
    interval_number: int
    started_at: int
    observed_at: int
    ended_at: int | None
    elapsed_ms: int


@dataclass(frozen=True, slots=True)
class MayStartRow:
    """What an attempt's clock depends on.

    Attributes:
        intervals: how many it has had.
        is_asked: an agent or a message of an assistant is awaited, under this very attempt.
        in_turn: a model's turn that the run started is open.
    """

    timeout_ms: int | None
    paused: int
    intervals: int
    is_asked: bool
    in_turn: bool


@dataclass(frozen=True, slots=True)
class SpentRow:
    """An attempt's budget, what it has used of it, and whether that may still end it."""

    timeout_ms: int | None
    spent_ms: int
    is_asked: bool


SELECT_OPEN: Final = """
    SELECT attempt_id, interval_number, started_at, observed_at, ended_at, elapsed_ms
      FROM attempt_active_intervals
     WHERE attempt_id = :attempt_id AND ended_at IS NULL
"""

SELECT_MAY_START: Final = """
    SELECT a.timeout_ms, r.paused,
           (SELECT count(*) FROM attempt_active_intervals AS c
             WHERE c.attempt_id = a.attempt_id) AS intervals,
           EXISTS (SELECT 1 FROM interactive_requests AS i
                    WHERE i.attempt_id = a.attempt_id AND i.status = 'pending'
                      AND i.kind IN ('agent', 'assistant')) AS is_asked,
           EXISTS (SELECT 1 FROM workflow_turns AS t
                    WHERE t.run_id = a.run_id AND t.state = 'started') AS in_turn
      FROM node_attempts AS a JOIN runs AS r ON r.run_id = a.run_id
     WHERE a.attempt_id = :attempt_id AND a.finished_at IS NULL
"""

SELECT_SPENT: Final = """
    SELECT a.timeout_ms, coalesce(sum(c.elapsed_ms), 0) AS spent_ms,
           r.paused = 0 AND EXISTS (SELECT 1 FROM interactive_requests AS i
                                     WHERE i.attempt_id = a.attempt_id
                                       AND i.status = 'pending') AS is_asked
      FROM node_attempts AS a
      JOIN runs AS r ON r.run_id = a.run_id
      LEFT JOIN attempt_active_intervals AS c ON c.attempt_id = a.attempt_id
     WHERE a.attempt_id = :attempt_id
     GROUP BY a.attempt_id
"""

INSERT_INTERVAL: Final = """
    INSERT INTO attempt_active_intervals
           (attempt_id, interval_number, started_at, observed_at, elapsed_ms)
    VALUES (:attempt_id, :number, :now, :now, 0)
"""

UPDATE_SAMPLED: Final = """
    UPDATE attempt_active_intervals
       SET elapsed_ms = max(elapsed_ms, :elapsed_ms), observed_at = :now
     WHERE attempt_id = :attempt_id AND ended_at IS NULL
"""

UPDATE_STOPPED: Final = """
    UPDATE attempt_active_intervals SET ended_at = observed_at
     WHERE attempt_id = :attempt_id AND ended_at IS NULL
"""

# Downtime is free: an interval ends at its last sample, nothing is added.
UPDATE_ALL_STOPPED: Final = """
    UPDATE attempt_active_intervals SET ended_at = observed_at WHERE ended_at IS NULL
"""

ROW_STATEMENTS: Final = {
    "SELECT_OPEN": Interval,
    "SELECT_MAY_START": MayStartRow,
    "SELECT_SPENT": SpentRow,
}


def open_of(reading: Reading, attempt_id: str) -> Interval | None:
    """Return the interval that is open; None while nobody works on the attempt."""
    return reading.one(Interval, SELECT_OPEN, {"attempt_id": attempt_id})


def start(tx: Transaction, attempt_id: str, *, is_ours: bool) -> Interval:
    """Open an interval of the attempt, or adopt the one that this process has opened.

    Args:
        attempt_id: an attempt that an agent or an assistant's message is awaited for.
        is_ours: the caller's process has opened an interval of it and not closed it.

    Raises:
        IllegalTransitionError: the run is paused, nothing is awaited, no model's turn is open, no
            timeout was stored, or the open interval is a dead process's: it is recovered first.
    """
    running = open_of(tx, attempt_id)
    if running is not None:
        if not is_ours:
            raise IllegalTransitionError(_MACHINE, "open", "start in another process")
        return running
    may = tx.one(MayStartRow, SELECT_MAY_START, {"attempt_id": attempt_id})
    if may is None or not may.is_asked:
        raise IllegalTransitionError(_MACHINE, "closed", "start while nothing is awaited")
    if may.paused:
        raise IllegalTransitionError(_MACHINE, "closed", "start while the run is paused")
    if not may.in_turn:
        raise IllegalTransitionError(_MACHINE, "closed", "start outside a model's turn")
    if may.timeout_ms is None:
        raise IllegalTransitionError(_MACHINE, "closed", "start before its timeout is stored")
    number = may.intervals + 1
    tx.execute(INSERT_INTERVAL, {"attempt_id": attempt_id, "number": number, "now": tx.now})
    return Interval(attempt_id, number, tx.now, tx.now, None, 0)


def sample(tx: Transaction, attempt_id: str, elapsed_ms: int) -> None:
    """Note how long the open interval has lasted; without one, nothing is noted.

    Args:
        attempt_id: the attempt.
        elapsed_ms: monotonic milliseconds since it was opened; a smaller one changes nothing.
    """
    tx.execute(UPDATE_SAMPLED, {"attempt_id": attempt_id, "elapsed_ms": elapsed_ms, "now": tx.now})


def stop(tx: Transaction, attempt_id: str, elapsed_ms: int) -> bool:
    """Sample and close the open interval; False when none was open."""
    sample(tx, attempt_id, elapsed_ms)
    return tx.execute(UPDATE_STOPPED, {"attempt_id": attempt_id}) == 1


def halt(tx: Transaction, attempt: AttemptRow | None) -> None:
    """Close what is open of an attempt at its last sample: its run is paused, or ends."""
    if attempt is not None:
        tx.execute(UPDATE_STOPPED, {"attempt_id": attempt.attempt_id})


def stop_all(tx: Transaction) -> int:
    """Close what a dead server left open at its last sample; return how many there were."""
    return tx.execute(UPDATE_ALL_STOPPED, {})


def spent_ms(reading: Reading, attempt_id: str) -> int:
    """Return what all intervals of an attempt have taken, as of their last samples."""
    found = reading.one(SpentRow, SELECT_SPENT, {"attempt_id": attempt_id})
    return 0 if found is None else found.spent_ms


def left_ms(reading: Reading, attempt_id: str) -> int | None:
    """Return what is left of an attempt's budget, at least 0; None when it has no end."""
    found = reading.one(SpentRow, SELECT_SPENT, {"attempt_id": attempt_id})
    if found is None or not found.timeout_ms:
        return None
    return max(0, found.timeout_ms - found.spent_ms)


def has_expired(reading: Reading, attempt_id: str) -> bool:
    """Say whether the budget is used up while an answer is still awaited and the run not paused.

    The millisecond that reaches the budget is the first that is too late.
    """
    found = reading.one(SpentRow, SELECT_SPENT, {"attempt_id": attempt_id})
    if found is None or not found.timeout_ms or not found.is_asked:
        return False
    return found.spent_ms >= found.timeout_ms
