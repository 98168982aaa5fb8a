"""What the loop remembers of the recorded steps; cost per step never depends on their number."""

from dataclasses import dataclass, field
from typing import cast

from pi_workflows.authoring.context import StepResult
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import StepOutcome


@dataclass(slots=True)
class History:
    """The fold of a run's steps (B §9).

    Attributes:
        outputs: latest `ok` output per node; any later other outcome of the node removes it.
        results: latest result per node, whatever its outcome.
        visits: recorded steps per node.
        step_count: recorded steps of all nodes.
        last: the newest step; None before the first.
    """

    outputs: dict[str, JsonValue] = field(default_factory=dict)
    results: dict[str, StepResult] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    step_count: int = 0
    last: StepResult | None = None

    def record(self, step: StepResult) -> None:
        """Add the next step."""
        if step.outcome is StepOutcome.OK:
            self.outputs[step.node_id] = step.output
        else:
            self.outputs.pop(step.node_id, None)
        self.results[step.node_id] = step
        self.visits[step.node_id] = self.visits.get(step.node_id, 0) + 1
        self.step_count += 1
        self.last = step

    def next_visit(self, node_id: str) -> int:
        """Return the number of the node's next visit, from 1."""
        return 1 + self.visits.get(node_id, 0)


def parse_step(stored: JsonObject, output: JsonValue) -> StepResult:
    """Read one step of a `run.state` reply; its instants are UTC epoch milliseconds.

    Args:
        stored: the step.
        output: its output, which may have come apart from it.

    Raises:
        KeyError, ValueError: a field is missing or the outcome is unknown.
    """
    return StepResult(
        attempt_id=cast("str", stored["attemptId"]),
        node_id=cast("str", stored["nodeId"]),
        node_type=cast("str", stored["nodeType"]),
        outcome=StepOutcome(cast("str", stored["outcome"])),
        started_at=cast("int", stored["startedAt"]),
        finished_at=cast("int", stored["finishedAt"]),
        output=output,
        error=cast("str | None", stored.get("error")),
    )
