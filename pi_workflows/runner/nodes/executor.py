"""Runs the user code of one `Call` on the main thread and never raises."""

from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from pi_workflows.authoring.budgets import budget_ms
from pi_workflows.authoring.codec import ANY_JSON
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.settings_copy import SettingsCopy
from pi_workflows.authoring.timeouts import Computed
from pi_workflows.protocol.states import NodeType, StepOutcome
from pi_workflows.runner.author_errors import describe, wanted_wait_ms
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.messages import Call, CallResult, Purpose
from pi_workflows.runner.nodes.action import FUNCTION_RECEIPT, run_action
from pi_workflows.runner.nodes.batch import CommandBatches
from pi_workflows.runner.nodes.callbacks import CodeCancelled, invoke
from pi_workflows.runner.nodes.command import TERM_GRACE_MS
from pi_workflows.runner.nodes.compute import run_compute
from pi_workflows.runner.nodes.crossing import run_crossing
from pi_workflows.runner.nodes.notify import run_notify
from pi_workflows.runner.nodes.shell import run_shell
from pi_workflows.runner.outside_processes import OutsideProcesses
from pi_workflows.runner.presentation import call_prompt
from pi_workflows.runner.publishing import Publisher, Speak
from pi_workflows.runner.shell_groups import ShellGroups
from pi_workflows.runner.sighting import observed


class _View:
    """A workflow as its own code sees it: the root, or what is included at one mount."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.codecs = definition.codecs()
        self.exits = definition.exit_codecs()


class Executor:
    """Knows how each kind of node runs.

    Args:
        groups: where shell commands are entered.
        speak: sends what user code publishes; None lets nothing be published.
        source_directory: whose lines error texts name; None when the workflow has no file.
        term_grace_ms: from SIGTERM to SIGKILL of a shell command.
    """

    def __init__(
        self,
        definition: Definition,
        groups: ShellGroups,
        *,
        source_directory: Path | None,
        speak: Speak | None = None,
        term_grace_ms: int = TERM_GRACE_MS,
    ) -> None:
        self._definition = definition
        self._views: dict[str, _View] = {}
        self._groups = groups
        self._source_directory = source_directory
        self._speak = speak
        self._term_grace_ms = term_grace_ms

    def run(self, call: Call, cancellation: Cancellation) -> CallResult:
        """Run one callback of a node.

        Returns:
            How it ended. `timed_out` only says that the code ended by its cancellation; why it
            was cancelled is for the caller to know.
        """
        try:
            return self._dispatch(call, self.context(call, cancellation), cancellation)
        except CodeCancelled:
            return CallResult(outcome=StepOutcome.TIMED_OUT)
        except BaseException as error:  # noqa: BLE001 - the one place where author code runs
            return CallResult(
                outcome=StepOutcome.FAILED,
                error=self._describe(error),
                receipt=FUNCTION_RECEIPT if _acts(call) else None,
                retry_after_ms=wanted_wait_ms(error) if call.purpose is Purpose.NODE else None,
            )

    def _dispatch(self, call: Call, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
        callbacks = {
            Purpose.NODE: self._node,
            Purpose.TIMEOUT: self._timeout,
            Purpose.REQUEST: self._request,
            Purpose.OBSERVE: self._observe,
            Purpose.PRESENT: self._present,
        }
        return callbacks[call.purpose](call, context, cancellation)

    def context(self, call: Call, cancellation: Cancellation) -> Ctx[Any]:
        """Return what the user code of a call is given.

        Raises:
            BaseException: input or settings do not fit their declared types any more.
        """
        view = self._view(call)
        return Ctx(
            run_id=call.run_id,
            input=view.definition.input_codec.load(call.input),
            outputs=call.outputs,
            results=call.results,
            visit=call.visit,
            attempt=call.attempt,
            codecs=view.codecs,
            exits=view.exits,
            cancelled=cancellation.is_cancelled,
            effect=call.effect,
            publish=self._publisher(call, cancellation, NodeType.ACTION),
            processes=self._processes(call),
            batches=self._batches(call, cancellation),
            settings=_settings(view.definition, call),
        )

    def _view(self, call: Call) -> "_View":
        """Return the workflow whose code the call runs."""
        path = "" if call.purpose is Purpose.PRESENT else call.node.mount_path
        view = self._views.get(path)
        if view is None:
            root = self._definition
            view = self._views[path] = _View(root.mounts[path].child if path else root)
        return view

    def _processes(self, call: Call) -> OutsideProcesses | None:
        return OutsideProcesses(self._speak) if self._speak is not None and _acts(call) else None

    def _batches(self, call: Call, cancellation: Cancellation) -> CommandBatches | None:
        if not _acts(call):
            return None
        return CommandBatches(
            self._groups,
            cancellation,
            self._publisher(call, cancellation, NodeType.ACTION),
            term_grace_ms=self._term_grace_ms,
        )

    def _publisher(
        self, call: Call, cancellation: Cancellation, node_type: NodeType
    ) -> Publisher | None:
        """Return what publishes for the code of a node of this type; None for all other code."""
        speaks = call.purpose is Purpose.NODE and call.node.node_type is node_type
        if self._speak is None or not speaks:
            return None
        return Publisher(self._speak, call.attempt_id, cancellation)

    def _timeout(self, call: Call, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
        computed = call.node.timeout
        assert isinstance(computed, Computed)
        value = invoke(computed.fn, context, is_async=computed.is_async, cancellation=cancellation)
        return CallResult(outcome=StepOutcome.OK, output=budget_ms(value))

    def _request(self, call: Call, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
        function = call.node.request
        assert function is not None
        value = invoke(
            function, context, is_async=iscoroutinefunction(function), cancellation=cancellation
        )
        output = ANY_JSON.dump(value, where=f'node "{call.node.node_id}" request')
        return CallResult(outcome=StepOutcome.OK, output=output)

    def _observe(self, call: Call, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
        look = call.node.look
        assert look is not None
        seen = invoke(look.fn, context, is_async=look.is_async, cancellation=cancellation)
        return observed(call.node, seen)

    def _present(self, call: Call, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
        text = call_prompt(self._definition, call, context, cancellation)
        return CallResult(outcome=StepOutcome.OK, output=text)

    def _node(self, call: Call, context: Ctx[Any], cancellation: Cancellation) -> CallResult:
        if call.node.crossing is not None:
            mounted = self._definition.mounts[call.node.crossing.mount]
            return run_crossing(call, mounted, context, cancellation)
        match call.node.node_type:
            case NodeType.COMPUTE:
                return run_compute(call.node, context, cancellation)
            case NodeType.ACTION:
                return run_action(call.node, context, cancellation, describe=self._describe)
            case NodeType.SHELL:
                return run_shell(
                    call.node,
                    context,
                    cancellation,
                    groups=self._groups,
                    term_grace_ms=self._term_grace_ms,
                    describe=self._describe,
                    publish=self._publisher(call, cancellation, NodeType.SHELL),
                )
            case NodeType.NOTIFY:
                return run_notify(call.node, context, cancellation)
            case NodeType.AGENT | NodeType.CHECKPOINT | NodeType.HUMAN:
                raise AssertionError("no run with such a node is started")

    def _describe(self, error: BaseException) -> str:
        return describe(error, self._source_directory)


def _acts(call: Call) -> bool:
    """Say whether the function of an action is to run."""
    return call.purpose is Purpose.NODE and call.node.node_type is NodeType.ACTION


def _settings(definition: Definition, call: Call) -> SettingsCopy[Any] | None:
    """Return a call's settings as their declared type."""
    copy = call.settings
    if copy is None or definition.settings is None:
        return None
    value = definition.settings.codec.load(copy.value)
    return SettingsCopy(copy.scope_id, copy.change_number, value)
