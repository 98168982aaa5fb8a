"""What a node's function may know of its run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from typing_extensions import TypeVar

from pi_workflows.authoring.codec import Codec
from pi_workflows.authoring.errors import (
    BatchRefused,
    EffectMissing,
    OutputMissing,
    ProcessRefused,
    SettingsMissing,
    UpdateRefused,
)
from pi_workflows.authoring.exiting import carried_out
from pi_workflows.authoring.handles import Exit, Mount, Node
from pi_workflows.authoring.json_form import plain_json
from pi_workflows.authoring.processes import Batches, Processes
from pi_workflows.authoring.settings_copy import SettingsCopy
from pi_workflows.authoring.updates import Update, progress
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.progress import OVERALL_KEY, ProgressStatus
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.protocol.updates import UPDATE_REFUSED

if TYPE_CHECKING:
    from pi_workflows.authoring.command_batch import BatchCommand, BatchKind, CommandBatchResult

I_co = TypeVar("I_co", covariant=True)
S_co = TypeVar("S_co", default=Any, covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The record of a node's latest attempt; `$result.` paths read its `record`.

    Attributes:
        started_at: UTC epoch milliseconds.
        finished_at: UTC epoch milliseconds.
        output: JSON after `ok`, else None.
        error: text after another outcome, else None.
    """

    attempt_id: str
    node_id: str
    node_type: str
    outcome: StepOutcome
    started_at: int
    finished_at: int
    output: JsonValue = None
    error: str | None = None

    @property
    def duration_ms(self) -> int:
        """Wall clock time between the two instants; never negative."""
        return max(0, self.finished_at - self.started_at)

    def record(self) -> JsonObject:
        """Return the stored form, with camelCase names; absent fields are left out."""
        record: JsonObject = {
            "attemptId": self.attempt_id,
            "nodeId": self.node_id,
            "nodeType": self.node_type,
            "outcome": self.outcome.value,
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
            "durationMs": self.duration_ms,
        }
        if self.outcome is StepOutcome.OK:
            record["output"] = self.output
        if self.error is not None:
            record["error"] = self.error
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectIdentity:
    """The reserved effect that a node is carrying out; the engine alone makes it.

    Attributes:
        key: canonical JSON of run id, effect type, node path and visit: the same for every
            attempt of one visit, so it can be the external key of an idempotent effect.
        attempt_number: from 1; above 1 an earlier try may or may not have been applied.
    """

    effect_id: str
    effect_type: str
    key: str
    attempt_number: int


class Ctx(Generic[I_co, S_co]):
    """The context of one visit of one node; read-only. The type parameters: input and settings.

    Only the runner makes one (a unit test of `node.fn` may). The code of an included workflow
    sees what belongs to the current invocation, as if it were a run of its own.

    Args:
        input: the workflow's input as the author's type.
        outputs: latest `ok` output per node; a later other outcome removes it.
        results: latest result per node, whatever its outcome.
        visit: 1 plus the recorded steps of this node in this run, or invocation.
        attempt: 1 plus the failed tries of this visit.
        codecs: output codec of every node.
        exits: codec of every exit, by mount and exit name.
        cancelled: says whether the node should stop; safe to call from any thread.
        effect: None for a node that declares none.
        publish: sends an update; None for code that may not publish.
        processes: takes processes into care; None for code that may start none outside.
        batches: runs command batches; None for code that may not.
        settings: this try's copy; None in a workflow that declares none.
    """

    __slots__ = (
        "_attempt",
        "_batches",
        "_cancelled",
        "_codecs",
        "_effect",
        "_exits",
        "_input",
        "_outputs",
        "_processes",
        "_publish",
        "_results",
        "_run_id",
        "_settings",
        "_visit",
    )

    def __init__(  # noqa: PLR0913 - by name only, and only the runner makes one
        self,
        *,
        run_id: str,
        input: I_co,  # noqa: A002 - the word authors read at `ctx.input`
        outputs: Mapping[str, JsonValue],
        results: Mapping[str, StepResult],
        visit: int,
        attempt: int = 1,
        codecs: Mapping[str, Codec],
        cancelled: Callable[[], bool],
        effect: EffectIdentity | None = None,
        publish: Callable[[Update], None] | None = None,
        processes: Processes | None = None,
        batches: Batches | None = None,
        exits: Mapping[str, Mapping[str, Codec]] = MappingProxyType({}),
        settings: SettingsCopy[S_co] | None = None,
    ) -> None:
        self._run_id = run_id
        self._input = input
        self._outputs = outputs
        self._results = results
        self._visit = visit
        self._attempt = attempt
        self._codecs = codecs
        self._cancelled = cancelled
        self._effect = effect
        self._publish = publish
        self._processes = processes
        self._batches = batches
        self._exits = exits
        self._settings = settings

    @property
    def input(self) -> I_co:
        """The workflow's input; the same at every node of a run, or of an invocation."""
        return self._input

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._run_id

    @property
    def visit(self) -> int:
        """From 1, counts how often this node was reached; a crash does not count."""
        return self._visit

    @property
    def attempt(self) -> int:
        """From 1, counts the tries of this visit by the node's `retry`; a crash does not count."""
        return self._attempt

    @property
    def cancelled(self) -> bool:
        """True once the run is cancelled or the deadline has passed; poll it in long sync work."""
        return self._cancelled()

    @property
    def settings(self) -> S_co:
        """The settings as they were when this try began; a change since reaches the next one.

        Raises:
            SettingsMissing: the workflow declares none.
        """
        return self._settings_copy.value

    @property
    def settings_scope_id(self) -> str:
        """Id of the settings: the run's own, or those of this invocation.

        Raises:
            SettingsMissing: the workflow declares none.
        """
        return self._settings_copy.scope_id

    @property
    def settings_change_number(self) -> int:
        """How many changes the settings have seen; 0 is the initial ones.

        Raises:
            SettingsMissing: the workflow declares none.
        """
        return self._settings_copy.change_number

    @property
    def _settings_copy(self) -> SettingsCopy[S_co]:
        if self._settings is None:
            raise SettingsMissing
        return self._settings

    @property
    def effect(self) -> EffectIdentity:
        """Identity of the effect in hand.

        Raises:
            EffectMissing: the node is neither an action nor a shell node.
        """
        if self._effect is None:
            raise EffectMissing
        return self._effect

    def publish_update(self, type: str, key: str, data: Mapping[str, Any]) -> None:  # noqa: A002
        """Say something of this node while it works: viewers see the newest of each type and key.

        Only in the function of an action; from any of its threads. When it returns, the update is
        stored. It ends nothing, routes nothing and is no progress of the run by itself. A run may
        publish 20 updates a second, and 100 at once after a while without; no more are queued.

        Args:
            type: 1 to 64 of `a-z 0-9 . -`, beginning with a letter.
            key: 1 to 128 of `A-Z a-z 0-9 . _ : / -`, beginning with a letter or digit.
            data: a JSON object of at most 64 KiB.

        Raises:
            UpdateRefused: it breaks a rule, comes too often or too late; see its code.
        """
        self._send(Update(type, key, data))

    def progress(
        self,
        *,
        completed: float | None = None,
        total: float | None = None,
        unit: str | None = None,
        label: str | None = None,
        phase: str | None = None,
        status: str = ProgressStatus.RUNNING,
        key: str = OVERALL_KEY,
    ) -> None:
        """Say how far this node has come: `run` and `watch` draw it as a bar.

        The arguments are those of `pi_workflows.progress`; where and how often, see
        `publish_update`.

        Raises:
            UpdateRefused: as `publish_update`.
        """
        self._send(
            progress(
                completed=completed,
                total=total,
                unit=unit,
                label=label,
                phase=phase,
                status=status,
                key=key,
            )
        )

    def register_process(self, pid: int) -> None:
        """Have a process that the node has started outside end with the runner.

        A runner's processes end with it, unless they have left its session. One that leads a
        session or a process group of its own (`Popen(start_new_session=True)`) is registered
        here: it is killed, with its session, when the runner has ended, also after a crash of
        the server. Register it before it is waited for. Only in the function of an action; from
        any of its threads. At most 16 at a time.

        Raises:
            ProcessRefused: it is no child of this process, leads nothing, or is registered.
        """
        self._care().register(pid)

    def unregister_process(self, pid: int) -> None:
        """Let a registered process live on after the runner, or forget one that has ended.

        Raises:
            ProcessRefused: this runner has not registered it.
        """
        self._care().unregister(pid)

    def command_batch(
        self,
        commands: "Sequence[BatchCommand]",
        *,
        kind: "BatchKind",
        concurrency: int = 4,
    ) -> "CommandBatchResult":
        """Run up to 64 commands, some at a time, and return what came of each, in their order.

        No command makes this raise: one that cannot start, fails or takes too long is told in the
        result. Once the run is cancelled or the deadline has passed, the commands at work are
        ended and the others stay unstarted; all of these are `cancelled`. The end of each command
        is published as an update of type `command-batch.item`, key `<kind>/<id>`; one that the
        server does not take is left out. Only in the function of an action; from any of its
        threads. An async one gives it a thread: `await trio.to_thread.run_sync(...)`.

        Args:
            commands: may be none.
            kind: what they are for, as the updates say.
            concurrency: how many run at a time, 1 to 8.

        Raises:
            BatchRefused: a command or an option breaks a rule; nothing has started.
        """
        if self._batches is None:
            raise BatchRefused("only the function of an action runs command batches")
        return self._batches(commands, kind, concurrency)

    def _care(self) -> Processes:
        if self._processes is None:
            raise ProcessRefused("only the function of an action registers processes")
        return self._processes

    def _send(self, update: Update) -> None:
        if self._publish is None:
            text = "only the function of an action and the line parser of a shell node publish"
            raise UpdateRefused(UPDATE_REFUSED, text)
        self._publish(update)

    def output(self, node: Node[T]) -> T:
        """Return a fresh copy of the node's latest output.

        Raises:
            OutputMissing: it has not run, or its latest attempt did not end `ok`.
        """
        if node.node_id not in self._outputs:
            raise OutputMissing(node.node_id)
        return cast("T", self._load(node.node_id))

    def get(self, node: Node[T]) -> T | None:
        """Like `output`, with None where there is none."""
        if node.node_id not in self._outputs:
            return None
        return cast("T", self._load(node.node_id))

    @overload
    def exited(self, mount: Mount, exit_: Exit[T]) -> T | None: ...
    @overload
    def exited(self, mount: Mount, exit_: str) -> Any: ...  # noqa: ANN401 - known by its name
    def exited(self, mount: Mount, exit_: Exit[Any] | str) -> Any:
        """Return what the included workflow carried out, if it was last left by this exit.

        None also when it was not entered yet, and while it is inside.

        Args:
            exit_: what the child's `wf.exit(...)` gave, or its name where the child is included
                by reference.

        Raises:
            ExitUnknown: the workflow at this mount has no such exit.
        """
        left = self._outputs.get(mount.mount_name)
        return carried_out(mount, exit_, self._exits.get(mount.mount_name, {}), left)

    def result(self, node: Node[Any] | Mount) -> StepResult | None:
        """Return how the latest attempt ended; None when it has not run.

        Of a mount it is the latest transition into it or out of it. Its output is a fresh copy.
        """
        name = node.mount_name if isinstance(node, Mount) else node.node_id
        found = self._results.get(name)
        return None if found is None else replace(found, output=plain_json(found.output))

    def _load(self, node_id: str) -> Any:  # noqa: ANN401 - the handle carries the type
        return self._codecs[node_id].load(self._outputs[node_id])
