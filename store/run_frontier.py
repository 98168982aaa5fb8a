"""Where a run stands in its graph: the newest step, and what may follow it."""

from typing import NamedTuple

from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.protocol.content import INLINE_BYTES_MAX
from pi_workflows.protocol.definition import (
    DefinitionSnapshot,
    EndRun,
    GoTo,
    SwitchEdge,
    enclosing_mounts,
    output_names,
    result_record,
    route,
)
from pi_workflows.protocol.states import OUTCOME_OF_ATTEMPT, StepOutcome
from store import attempts, blobs, contents
from store.attempts import LastStepRow
from store.transaction import Reading, Transaction


class LastStep(NamedTuple):
    """The newest step, as routing needs it.

    Attributes:
        authored_count: steps of nodes that authors declared, up to it.
        output_hash: None where no output is stored.
        error_text: None when the outcome is ok.
    """

    step_index: int
    authored_count: int
    node_id: str
    outcome: StepOutcome
    output_hash: bytes | None
    error_text: str | None


class Frontier:
    """The end of a run's recorded steps; moves on with each step that is appended."""

    def __init__(
        self,
        tx: Transaction,
        run_id: str,
        last: LastStepRow | None,
        definition: DefinitionSnapshot,
    ) -> None:
        """Stand behind the newest step; its output is read only when a switch asks for it."""
        self._tx = tx
        self._run_id = run_id
        self._definition = definition
        self._last = _last_step(tx, last)
        self._output: JsonValue = None
        self._output_read = False

    @property
    def last(self) -> LastStep | None:
        """The newest step; None before the first."""
        return self._last

    @property
    def step_count(self) -> int:
        """How many steps are recorded; also the index of the next one."""
        return 0 if self._last is None else self._last.step_index + 1

    @property
    def authored_count(self) -> int:
        """How many steps of nodes that authors declared are recorded."""
        return 0 if self._last is None else self._last.authored_count

    def at_limit(self, node_id: str) -> bool:
        """Say whether the run, or a mount around the node, allows no step of it.

        Transitions into mounts and out of them are not counted, so nothing forbids them.
        """
        node = self._definition.nodes.get(node_id)
        if node is None or node.role is not None:
            return False
        count = self.authored_count
        return count >= self._definition.max_steps or any(
            count - attempts.count_at(self._tx, self._run_id, mount)
            >= self._definition.mounts[mount].max_steps
            for mount in enclosing_mounts(node.mount_path)
        )

    def append(self, step: LastStep, output: JsonValue, *, is_read: bool = True) -> None:
        """Move on to a step that was just recorded with this output.

        Args:
            is_read: `output` is the output; else it is read when a switch asks for it.
        """
        assert step.step_index == self.step_count, "steps are recorded without a gap"
        self._last = step
        self._output = output
        self._output_read = is_read

    def follows(self) -> GoTo | EndRun:
        """Return what the graph says comes next.

        Raises:
            LongWork: a switch asks for a value inside a large output, on the loop.
        """
        last = self._last
        if last is None:
            return GoTo(self._definition.start_at)
        edge = self._definition.edges.get(last.node_id)
        output = self._read_output(last, edge) if isinstance(edge, SwitchEdge) else None
        result = result_record(last.outcome, output, last.error_text)
        return route(last.node_id, edge, last.outcome, output, result)

    def _read_output(self, last: LastStep, edge: SwitchEdge) -> JsonValue:
        """Return the output, or of a large one no more than the value that the switch reads."""
        stored = last.output_hash
        if not self._output_read and stored is not None:
            if contents.size(self._tx, stored) <= INLINE_BYTES_MAX:
                self._output = blobs.read_json(self._tx, stored)
            else:
                self._output = self._read_scalar(stored, edge)
        self._output_read = True
        return self._output

    def _read_scalar(self, stored: bytes, edge: SwitchEdge) -> JsonValue:
        names = output_names(edge.on)
        if names is None:
            return None  # The switch reads something else of the step.
        self._tx.take_long()
        found, value = contents.scalar_at(self._tx, stored, names)
        if not found:
            return None
        for name in reversed(names):
            value = {name: value}
        return value


def _last_step(reading: Reading, row: LastStepRow | None) -> LastStep | None:
    if row is None:
        return None
    error = None if row.error_hash is None else blobs.read_text(reading, row.error_hash)
    return LastStep(
        row.step_index,
        row.authored_count,
        row.node_id,
        OUTCOME_OF_ATTEMPT[row.status],
        row.output_hash,
        error,
    )
