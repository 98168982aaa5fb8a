"""The engine loop: which node runs next and what is committed between two pieces of user code.

The loop is a generator over messages. It yields `Send` and `Call` and is resumed with the `Reply`
or `CallResult`; it does no I/O and owns no clock and no randomness, so a socket drives it in the
child process and an actor drives the same loop in a simulation.

What it guarantees:

- everything that has to be recorded between two pieces of user code travels in one message, so it
  commits as one; only bodies too large for it go ahead;
- no user code runs before the transitions that announce it are accepted;
- a failed try that its node's retry lets follow by another one is closed without a step;
- an accepted output never runs again: resume goes on behind the last recorded step, or re-runs
  the one attempt that was interrupted, under the same visit number;
- a settings route counts only for the settings that stand when it is recorded;
- the first refusal ends the loop: nothing is proposed on top of a state the server denies.
"""

from typing import TYPE_CHECKING, cast

from pi_workflows.authoring.context import StepResult
from pi_workflows.authoring.definition import Definition, NodeDefinition
from pi_workflows.protocol.definition import (
    EndRun,
    GoTo,
    enclosing_mounts,
    result_record,
    route,
)
from pi_workflows.protocol.states import RunStatus
from pi_workflows.runner import transitions
from pi_workflows.runner.attempt import Attempt, Place, Surroundings
from pi_workflows.runner.history import History, parse_counts, parse_step
from pi_workflows.runner.messages import Ending, EngineLoop, ExitReason, Origin
from pi_workflows.runner.outgoing import LoopEnded, Outgoing, Steps
from pi_workflows.runner.presentation import present

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject, JsonValue


class Engine:
    """One run, driven from its start or its last durable boundary to its end."""

    def __init__(self, definition: Definition, *, run_id: str, origin: Origin) -> None:
        """Drive a compiled workflow."""
        assert not definition.includes, "only a compiled workflow runs"
        self._definition = definition
        self._run_id = run_id
        self._origin = origin
        self._history = History(definition)
        self._outgoing = Outgoing()
        self._failed_tries = 0

    def run(self) -> EngineLoop:
        """Return the loop, which ends with why it ended.

        Closing the generator abandons the current node: what it has not sent stays unrecorded.
        """
        try:
            where, visit = yield from self._take_command()
            while isinstance(where, GoTo):
                too_many = self._too_many_steps(where.node_id)
                if too_many is not None:
                    where = too_many
                    break
                where = yield from self._visit(where.node_id, visit)
                visit = None
            last = self._history.last
            output = last.output if last is not None else None
            self._outgoing.add(transitions.finish_run(where, output))
            yield from self._outgoing.commit()
            yield from present(self._definition, self._run_id, self._history, where.status)
        except LoopEnded as ended:
            return ended.ending
        return Ending(ExitReason.FINISHED)

    def _take_command(self) -> Steps[tuple[GoTo | EndRun, int | None]]:
        """Report ready, read what is recorded, and return where to go on.

        The second value is the visit number of an interrupted attempt; None counts it anew.
        """
        ready = (yield from self._outgoing.ask("runner.ready", {})).result
        self._history.scopes[""].input = yield from self._outgoing.body(ready, "input")
        if ready.get("stepCount"):
            yield from self._read_steps()
        boundary = cast("JsonObject", ready.get("boundary") or {})
        self._failed_tries = cast("int", boundary.get("failedTries", 0))
        interrupted = cast("JsonObject | None", boundary.get("interrupted"))
        if interrupted is not None:
            return GoTo(cast("str", interrupted["nodeId"])), cast("int", interrupted["visit"])
        if self._history.last is not None:
            return self._after(self._history.last), None
        return GoTo(self._definition.start_at), None

    def _read_steps(self) -> Steps[None]:
        """Read the newest step of each node, and the outputs of those that may be looked at."""
        found: list[JsonObject] = []
        position: JsonValue = 0
        while position is not None:
            page = (yield from self._outgoing.ask("run.state", {"fromNode": position})).result
            found += cast("list[JsonObject]", page["steps"])
            position = page.get("next")
        for stored in sorted(found, key=lambda step: cast("int", step["stepIndex"])):
            seen = self._history.sees(cast("str", stored["nodeId"]))
            output = (yield from self._outgoing.body(stored, "output")) if seen else None
            self._history.recall(parse_step(stored, output), parse_counts(stored))

    def _visit(self, node_id: str, visit: int | None) -> Steps[GoTo | EndRun]:
        """Try a visit of a node until it is over, which its last try decides.

        What closes a try stays unsent, to travel with what follows. A retry that has to wait is
        sent at once: the server parks the run then, and this child is done.
        """
        node = self._definition.nodes[node_id]
        number = visit or self._history.next_visit(node_id)
        local = self._history.scopes[node.mount_path].next_visit(node.local_id)
        failed_tries, self._failed_tries = self._failed_tries, 0
        while True:
            retry_in_ms, step = yield from self._try(node, Place(number, local, failed_tries))
            if retry_in_ms is None:
                break
            if retry_in_ms:
                yield from self._outgoing.commit()
            failed_tries += 1
        self._history.record(step)
        return self._after(step)

    def _try(self, node: NodeDefinition, place: Place) -> Steps[tuple[int | None, StepResult]]:
        """Run one try; return after how many ms it is followed by another one, and its record."""
        around = Surroundings(
            self._run_id,
            self._history.scopes[node.mount_path],
            None if node.crossing is None else self._definition.mounts[node.crossing.mount].child,
            self._outgoing,
        )
        attempt = Attempt(around, node, self._origin.attempt_id(), place)
        started_at = self._origin.now_ms()
        attempt.open(started_at)
        result = yield from attempt.run()
        retry_in_ms = attempt.close(result)
        while node.settings_route and (yield from attempt.reruns()):
            result = yield from attempt.run_again()
            retry_in_ms = attempt.close(result)
        step = StepResult(
            attempt_id=attempt.attempt_id,
            node_id=node.node_id,
            node_type=node.node_type.value,
            outcome=result.outcome,
            started_at=started_at,
            finished_at=self._origin.now_ms(),
            output=result.output,
            error=result.error,
        )
        return retry_in_ms, step

    def _after(self, step: StepResult) -> GoTo | EndRun:
        edge = self._definition.edges.get(step.node_id)
        record = result_record(step.outcome, step.output, step.error)
        return route(step.node_id, edge, step.outcome, step.output, record)

    def _too_many_steps(self, node_id: str) -> EndRun | None:
        """Return how the run ends if this node would go beyond a bound; None if it may run.

        The run has one, and so has each invocation of a mount around the node. Transitions into
        mounts and out of them are not counted.
        """
        node, count = self._definition.nodes[node_id], self._history.step_count
        if node.crossing is not None:
            return None
        for mount in enclosing_mounts(node.mount_path):
            child = self._definition.mounts[mount].child
            if count - self._history.scopes[mount].steps_before >= child.max_steps:
                return _beyond(node_id, child, f' in one invocation of mount "{mount}"')
        return _beyond(node_id, self._definition) if count >= self._definition.max_steps else None


def _beyond(node_id: str, workflow: Definition, where: str = "") -> EndRun:
    limit = workflow.max_steps
    return EndRun(
        RunStatus.FAILED,
        f'MAX_STEPS: node "{node_id}" would be step {limit + 1}{where}; workflow '
        f'"{workflow.name}" allows {limit}. Raise max_steps or end the loop earlier.',
    )
