"""What the loop remembers of the recorded steps; cost per step never depends on their number.

The code of an included workflow sees its current invocation only. So the steps are folded by
*scope*: one for the root, one for each mount, begun anew whenever the mount is entered.
"""

from dataclasses import dataclass, field, replace
from typing import Any, cast

from pi_workflows.authoring.context import StepResult
from pi_workflows.authoring.definition import Definition, NodeDefinition
from pi_workflows.authoring.mounts import Entry
from pi_workflows.authoring.settings_copy import SettingsCopy
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import StepOutcome


@dataclass(slots=True)
class Scope:
    """What the code of one workflow may know: of a run, or of one invocation of a mount.

    All names are those of the workflow itself, without the path of its mount.

    Attributes:
        input: as stored.
        outputs: latest `ok` output per node; any later other outcome of the node removes it.
        results: latest result per node, whatever its outcome.
        visits: recorded steps per node, the transitions into and out of mounts among them.
        steps_before: steps of authored nodes in the whole run before it began.
        settings: as last heard; None before the first try, and when there are none.
    """

    input: JsonValue = None
    outputs: dict[str, JsonValue] = field(default_factory=dict)
    results: dict[str, StepResult] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    steps_before: int = 0
    settings: SettingsCopy[JsonValue] | None = None

    def record(self, name: str, step: StepResult) -> None:
        """Take a step as the newest one under the name that this scope knows its node by."""
        if step.outcome is StepOutcome.OK:
            self.outputs[name] = step.output
        else:
            self.outputs.pop(name, None)
        self.results[name] = step if step.node_id == name else replace(step, node_id=name)

    def next_visit(self, name: str) -> int:
        """Return the number of the next visit of a node in this scope, from 1."""
        return 1 + self.visits.get(name, 0)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a step counts for, itself included.

    Attributes:
        visits: of its node in the run.
        local_visits: of its node in the current invocation of its workflow.
        steps: of nodes that authors declared, in the run.
    """

    visits: int
    local_visits: int
    steps: int


class History:
    """The fold of a run's steps (B §9).

    Attributes:
        scopes: by mount path; the root's is empty. A mount that was left has none.
        visits: recorded steps per compiled node, in the whole run.
        step_count: recorded steps of the nodes that authors declared.
        last: the newest step; None before the first.
    """

    def __init__(self, definition: Definition[Any]) -> None:
        self._definition = definition
        self.scopes = {"": Scope()}
        self.visits: dict[str, int] = {}
        self.step_count = 0
        self.last: StepResult | None = None

    def record(self, step: StepResult) -> None:
        """Add the next step."""
        node = self._definition.nodes[step.node_id]
        counts = Counts(
            self.next_visit(step.node_id),
            self.scopes[node.mount_path].next_visit(node.local_id),
            self.step_count + (node.crossing is None),
        )
        self.recall(step, counts)

    def recall(self, step: StepResult, counts: Counts) -> None:
        """Add a step that was recorded long ago; those between may be missing.

        Of each node its newest step has to be added, in the order of the steps. One of a mount
        that was left or entered anew since leaves nothing but its visits.
        """
        node = self._definition.nodes[step.node_id]
        self.visits[step.node_id] = counts.visits
        self.step_count = counts.steps
        self.last = step
        if not self.sees(step.node_id):
            return
        if node.mount_path in self.scopes:
            self.scopes[node.mount_path].visits[node.local_id] = counts.local_visits
        around, name = self._name(node)
        self.scopes[around].record(name, step)
        if node.crossing is None or step.outcome is not StepOutcome.OK:
            return
        mount = node.crossing.mount
        if isinstance(node.crossing, Entry):
            entered = cast("JsonObject", step.output)
            self.scopes[mount] = Scope(input=entered["input"], steps_before=self.step_count)
        else:
            self.scopes.pop(mount, None)

    def sees(self, node_id: str) -> bool:
        """Say whether some code that is yet to run could be shown a step of this node."""
        return self._name(self._definition.nodes[node_id])[0] in self.scopes

    @staticmethod
    def _name(node: NodeDefinition) -> tuple[str, str]:
        """Return which scope knows a node's steps, and by which name: transitions by the mount."""
        if node.crossing is None:
            return node.mount_path, node.local_id
        around, _, name = node.crossing.mount.rpartition("/")
        return around, name

    def next_visit(self, node_id: str) -> int:
        """Return the number of the node's next visit in the run, from 1."""
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


def parse_counts(stored: JsonObject) -> Counts:
    """Read what one step of a `run.state` reply counts for.

    Raises:
        KeyError: a field is missing.
    """
    return Counts(
        cast("int", stored["visit"]),
        cast("int", stored["invocationVisits"]),
        cast("int", stored["authoredCount"]),
    )
