"""Launches that follow from a terminal message by themselves: which chain, and how many.

A conversation that is told how a run ended may start a corrected run or restart it. Such a launch
is counted against its chain: the run that began it, and whatever was launched for it. People are
not counted.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import RunStatus
from store import effect_rows, runs
from store.errors import Rejected
from store.transaction import Reading

LAUNCHES_MAX: Final = 2
"""Launches of one chain, corrected starts and restarts alike."""


class NoRecovery(enum.StrEnum):
    """Why a terminal message may launch nothing."""

    NO_MESSAGE = "noTerminalMessage"
    CONSUMED = "messageConsumed"
    STOPPED = "recoveryStopped"
    CANCELLED = "runCancelled"
    UNSETTLED = "effectsUnsettled"
    LIMIT = "launchLimit"


_SAID: Final = {
    NoRecovery.NO_MESSAGE: "no terminal message of this run has this id",
    NoRecovery.CONSUMED: "its terminal message has launched a run before",
    NoRecovery.STOPPED: "recovery was stopped",
    NoRecovery.CANCELLED: "somebody has cancelled it",
    NoRecovery.UNSETTLED: "effects of it have to be settled first",
    NoRecovery.LIMIT: f"{LAUNCHES_MAX} runs have been launched for it already",
}


class RecoveryRefusedError(Rejected):
    """A terminal message may not launch a run by itself; a person still may."""

    code: ClassVar[str] = ErrorCode.RECOVERY_REFUSED
    wire_names: ClassVar[Mapping[str, str]] = {"reason": "reason"}

    def __init__(self, run_id: str, reason: NoRecovery) -> None:
        super().__init__(
            f"{run_id} is not recovered by itself: {_SAID[reason]}; look with: pi-workflows "
            f"show {run_id}"
        )
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RecoveryLink:
    """What the launched run stores.

    Attributes:
        root_run_id: the run that began the chain.
        message_id: the exact terminal message, which is consumed by it.
    """

    root_run_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class ChainRow:
    """A terminal message and the chain of its run.

    Attributes:
        stop: why recovery of this run was stopped; None while it was not.
        consumed: the message has launched a run.
        chain_cancelled: recovery was stopped for good by a cancel, anywhere in the chain.
        launches: runs that were launched in the chain.
    """

    root_run_id: str
    stop: str | None
    consumed: bool
    chain_cancelled: bool
    launches: int


SELECT_CHAIN: Final = """
    WITH handed AS (
        SELECT m.workflow_message_id, m.recovery_stop,
               coalesce(r.recovery_root_run_id, r.run_id) AS root_run_id
          FROM workflow_messages AS m JOIN runs AS r ON r.run_id = m.run_id
         WHERE m.workflow_message_id = :message AND m.run_id = :run_id AND m.kind = 'terminal'
    )
    SELECT h.root_run_id, h.recovery_stop AS stop,
           EXISTS (SELECT 1 FROM runs AS r
                    WHERE r.recovery_source_message_id = h.workflow_message_id) AS consumed,
           EXISTS (SELECT 1 FROM runs AS r JOIN workflow_messages AS m ON m.run_id = r.run_id
                    WHERE (r.run_id = h.root_run_id OR r.recovery_root_run_id = h.root_run_id)
                      AND m.recovery_stop = 'cancelled') AS chain_cancelled,
           (SELECT count(*) FROM runs AS r
             WHERE r.recovery_root_run_id = h.root_run_id) AS launches
      FROM handed AS h
"""

ROW_STATEMENTS: Final = {"SELECT_CHAIN": ChainRow}


def launch_link(reading: Reading, run_id: str, message_id: str) -> RecoveryLink:
    """Return what a run launched by this terminal message stores, if it may launch one.

    Race contract: the caller creates the run in the same transaction. A message launches one run,
    which a unique index holds too; the third launch of a chain is refused to whoever comes last.

    Args:
        run_id: the run whose end the message tells.

    Raises:
        RunUnknownError: no such run.
        RecoveryRefusedError: the message is another run's or none, is consumed, was stopped, the
            run or its root was cancelled, an effect of either is unsettled, or the chain has had
            its launches.
    """
    source = runs.require(reading, run_id)
    chain = reading.one(ChainRow, SELECT_CHAIN, {"message": message_id, "run_id": run_id})
    if chain is None:
        raise RecoveryRefusedError(run_id, NoRecovery.NO_MESSAGE)
    both = [source, runs.require(reading, chain.root_run_id)]
    if chain.consumed:
        reason = NoRecovery.CONSUMED
    elif chain.stop is not None:
        reason = NoRecovery.STOPPED
    elif chain.chain_cancelled or any(run.status is RunStatus.CANCELLED for run in both):
        reason = NoRecovery.CANCELLED
    elif any(effect_rows.unsettled(reading, run.resource_id) for run in both):
        reason = NoRecovery.UNSETTLED
    elif chain.launches >= LAUNCHES_MAX:
        reason = NoRecovery.LIMIT
    else:
        return RecoveryLink(chain.root_run_id, message_id)
    raise RecoveryRefusedError(run_id, reason)
