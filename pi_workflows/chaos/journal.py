"""What user code was really run, whatever the database says about it."""

from dataclasses import dataclass, field

from pi_workflows.protocol.states import RecoveryKind
from pi_workflows.runner.messages import Call, Purpose


@dataclass(frozen=True, slots=True)
class Execution:
    """One start of one piece of user code.

    Attributes:
        runner: the name of the process.
        attempt_id: which attempt it belongs to.
        effect_id: the effect it may carry out; None for a node that has none.
        is_manual: whether carrying it out twice would do harm.
    """

    runner: str
    run_id: str
    node_id: str
    visit: int
    purpose: Purpose
    attempt_id: str
    effect_id: str | None
    is_manual: bool


@dataclass(slots=True)
class Journal:
    """All executions of a simulation, in order."""

    executions: list[Execution] = field(default_factory=list)

    def begin(self, runner: str, call: Call) -> Execution:
        """Note that user code starts."""
        execution = Execution(
            runner,
            call.run_id,
            call.node.node_id,
            call.visit,
            call.purpose,
            call.attempt_id,
            call.effect.effect_id if call.effect is not None else None,
            call.node.effect is not None
            and call.node.effect.recovery == RecoveryKind.MANUAL.value,
        )
        self.executions.append(execution)
        return execution
