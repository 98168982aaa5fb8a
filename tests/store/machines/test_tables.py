"""The tables of the state machines: what they allow, what they refuse, what is final."""

from typing import Any, Final

import pytest

from pi_workflows.protocol.states import (
    ATTEMPT_OF_OUTCOME,
    TERMINAL_RUN_STATUSES,
    AttemptStatus,
    RunStatus,
)
from store.errors import IllegalTransitionError
from store.machines.attempt import ATTEMPT_MACHINE, MOVE_TO_OUTCOME, AttemptMove
from store.machines.effect import EFFECT_MACHINE, EffectMove
from store.machines.follow_up import FOLLOW_UP_MACHINE, FollowUpMove
from store.machines.message import MESSAGE_MACHINE, MessageMove
from store.machines.queue import QUEUE_MACHINE, SETTLEMENT, QueueMove
from store.machines.run import MOVE_TO_END, RUN_MACHINE, RunMove
from store.machines.table import Machine

# Per machine: its moves, and where rows may go from each state, as the specification has it.
SPECIFIED: Final[list[tuple[Machine[Any, Any], type[Any], dict[str, str]]]] = [
    (
        RUN_MACHINE,
        RunMove,
        {
            "queued": "running failed cancelled",
            "running": "running waiting completed failed timed_out cancelled",
            "waiting": "running failed cancelled",
        },
    ),
    (
        QUEUE_MACHINE,
        QueueMove,
        {
            "queued": "starting done failed cancelled",
            "starting": "running parked done failed cancelled",
            "running": "parked done failed cancelled",
            "parked": "starting queued done failed cancelled",
        },
    ),
    (
        ATTEMPT_MACHINE,
        AttemptMove,
        {
            "pending": "running interrupted cancelled",
            "running": "waiting interrupted completed failed timed_out cancelled",
            "waiting": "interrupted completed failed timed_out cancelled",
            "interrupted": "waiting cancelled",
        },
    ),
    (
        EFFECT_MACHINE,
        EffectMove,
        {
            "pending": "applying applied ambiguous cancelled",
            "applying": "applied rejected ambiguous pending",
            "ambiguous": "applied rejected pending",
        },
    ),
    (FOLLOW_UP_MACHINE, FollowUpMove, {"queued": "removed cancelled"}),
    (MESSAGE_MACHINE, MessageMove, {"pending": "sent cancelled", "cancelled": "sent"}),
]
MACHINES: Final = [machine for machine, _, _ in SPECIFIED]


@pytest.mark.parametrize(
    ("machine", "moves", "specified"), SPECIFIED, ids=[machine.name for machine in MACHINES]
)
def test_every_pair_outside_the_table_is_refused(
    machine: Machine[Any, Any], moves: type[Any], specified: dict[str, str]
) -> None:
    """All states times all moves: a legal move leads where it is specified, all others raise.

    Case: A78.
    """
    reached: dict[str, set[str]] = {}
    for state in machine.states:
        for move in moves:
            if (state, move) in machine.moves:
                reached.setdefault(str(state), set()).add(str(machine.apply(state, move)))
                continue
            with pytest.raises(IllegalTransitionError) as refused:
                machine.apply(state, move)
            assert refused.value.fields() == {
                "machine": machine.name,
                "state": str(state),
                "move": str(move),
            }
    assert reached == {state: set(targets.split()) for state, targets in specified.items()}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_state_is_reached_from_the_first(machine: Machine[Any, Any]) -> None:
    """A state that nothing leads to is a word without a meaning."""
    first, *others = machine.states
    reached = {first}
    for _ in others:
        reached |= {to for (state, _), to in machine.moves.items() if state in reached}
    assert reached == {first, *others}


def test_ended_runs_and_attempts_are_final() -> None:
    """Case: A78."""
    assert {state for state, _ in RUN_MACHINE.moves}.isdisjoint(TERMINAL_RUN_STATUSES)
    assert {state for state, _ in ATTEMPT_MACHINE.moves}.isdisjoint(ATTEMPT_OF_OUTCOME.values())
    assert set(MOVE_TO_END) == TERMINAL_RUN_STATUSES
    assert set(MOVE_TO_OUTCOME) == set(ATTEMPT_OF_OUTCOME.values())


def test_moves_to_an_end_lead_to_that_end() -> None:
    for status, move in MOVE_TO_END.items():
        assert RUN_MACHINE.apply(RunStatus.RUNNING, move) is status
    for outcome, attempt_move in MOVE_TO_OUTCOME.items():
        assert ATTEMPT_MACHINE.apply(AttemptStatus.RUNNING, attempt_move) is outcome


def test_queue_row_is_settled_together_with_its_run() -> None:
    """Completed is done, failed and timed out are failed, cancelled is cancelled."""
    live = {state for state, _ in QUEUE_MACHINE.moves}
    settled = {
        str(run): {str(QUEUE_MACHINE.apply(state, move)) for state in live}
        for run, move in SETTLEMENT.items()
    }
    assert settled == {
        "completed": {"done"},
        "failed": {"failed"},
        "timed_out": {"failed"},
        "cancelled": {"cancelled"},
    }
