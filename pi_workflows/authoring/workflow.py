"""The graph builder: `Workflow`, its decorators, its edges and `build()`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast, overload

from typing_extensions import TypeVar, override

from pi_workflows.authoring.callables import caller_frame, caller_location, location_of, takes
from pi_workflows.authoring.child_rules import check_includes
from pi_workflows.authoring.codec import ANY_JSON, Codec, UndeclarableType
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.contexts import UNDECLARED
from pi_workflows.authoring.conversation_nodes import ConversationNodes
from pi_workflows.authoring.declaration import DeclaredNode, NodeOptions, declare_node
from pi_workflows.authoring.decorators import NodeDecorator, ShellDecorator
from pi_workflows.authoring.definition import (
    Definition,
    PresentationCallback,
    ShellOptions,
    TitleCallback,
)
from pi_workflows.authoring.effects import EffectSpec
from pi_workflows.authoring.errors import DefinitionError, Location, Problems
from pi_workflows.authoring.graph import INVALID, Graph
from pi_workflows.authoring.handles import Node, Target
from pi_workflows.authoring.mounts import ExitDefinition
from pi_workflows.authoring.retry import Retry
from pi_workflows.authoring.rules import (
    callable_rule,
    contract_id_rule,
    max_steps_rule,
    presentation_prompt_rule,
    source_rule,
    title_rule,
    workflow_name_rule,
)
from pi_workflows.authoring.settings import Settings, settings_definition, settings_type
from pi_workflows.authoring.shell import OUTPUT_CHARS_DEFAULT, ShellResult
from pi_workflows.authoring.timeouts import DEFAULT_TIMEOUT, TimeoutOption
from pi_workflows.authoring.updates import LineParser, UpdateLines
from pi_workflows.protocol.definition import MAX_STEPS_DEFAULT
from pi_workflows.protocol.states import NodeType

I = TypeVar("I")  # noqa: E741 - the letter stands for the workflow's input everywhere here
S = TypeVar("S", default=Any)
T = TypeVar("T")


class Workflow(ConversationNodes[I, S]):
    """A workflow being written: decorate functions, draw edges between their handles, `build()`.

    Problems are collected while it is written, so that `build()` names all of them at once.

    Args:
        name: 1 to 128 of `A-Z a-z 0-9 . _ -`.
        input: type of the input, usually a pydantic model; None takes any JSON, which a node
            reads as `Ctx[Any]`.
        title: text for one run's listing, or a function of (input) or (input, name) giving text
            or None.
        max_steps: recorded attempts after which a run fails; at least 1.
        contract_id: stable identity of the input and exits; None has none.
        presentation_prompt: text, or a function of (input, final output) giving text or None.
        source: the workflow's own file, `__file__`, by which a run that includes it pins it; the
            file of this call when unsaid.
        settings: what may be changed while a run goes on, read as `Ctx[Input, Model]`; None for
            nothing.
    """

    @overload
    def __init__(
        self: "Workflow[None, None]",
        name: str,
        *,
        input: None = None,
        title: str | Callable[[Any], str | None] | Callable[[Any, str], str | None] | None = None,
        max_steps: int = MAX_STEPS_DEFAULT,
        contract_id: str | None = None,
        presentation_prompt: str | Callable[[Any, Any], str | None] | None = None,
        source: str | Path | None = None,
        settings: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "Workflow[None, S]",
        name: str,
        *,
        input: None = None,
        title: str | Callable[[Any], str | None] | Callable[[Any, str], str | None] | None = None,
        max_steps: int = MAX_STEPS_DEFAULT,
        contract_id: str | None = None,
        presentation_prompt: str | Callable[[Any, Any], str | None] | None = None,
        source: str | Path | None = None,
        settings: Settings[S],
    ) -> None: ...
    @overload
    def __init__(
        self: "Workflow[I, None]",
        name: str,
        *,
        input: type[I],
        title: str | Callable[[I], str | None] | Callable[[I, str], str | None] | None = None,
        max_steps: int = MAX_STEPS_DEFAULT,
        contract_id: str | None = None,
        presentation_prompt: str | Callable[[I, Any], str | None] | None = None,
        source: str | Path | None = None,
        settings: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        input: type[I],
        title: str | Callable[[I], str | None] | Callable[[I, str], str | None] | None = None,
        max_steps: int = MAX_STEPS_DEFAULT,
        contract_id: str | None = None,
        presentation_prompt: str | Callable[[I, Any], str | None] | None = None,
        source: str | Path | None = None,
        settings: Settings[S],
    ) -> None: ...
    def __init__(
        self,
        name: Any = None,
        *,
        input: Any = None,  # noqa: A002 - the word authors write
        title: Any = None,
        max_steps: int = MAX_STEPS_DEFAULT,
        contract_id: str | None = None,
        presentation_prompt: Any = None,
        source: str | Path | None = None,
        settings: Settings[Any] | None = None,
    ) -> None:
        super().__init__(Problems(name))
        self._name = name
        self._input = input
        self._title = title
        self._max_steps = max_steps
        self._contract_id = contract_id
        self._presentation_prompt = presentation_prompt
        self._source = source
        self._location = caller_location()
        self._nodes: dict[str, DeclaredNode] = {}
        for broken in (
            workflow_name_rule(name),
            contract_id_rule(contract_id),
            title_rule(title),
            max_steps_rule(max_steps),
            presentation_prompt_rule(presentation_prompt),
            source_rule(source),
        ):
            if broken is not None:
                self._problems.add(INVALID, broken, location=self._location)
        self._settings = settings_definition(name, settings, self._problems)
        self._settings_type = settings_type(settings, self._settings)

    def compute(
        self,
        *,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
        retry: Retry | None = None,
    ) -> NodeDecorator[I, S]:
        """Declare a node that only computes: it may run again after a crash.

        Args:
            timeout: seconds, a timedelta, None for no limit, or a function of the context giving
                one of them at each try; 900 seconds when unsaid.
            status_detail: text shown while it runs.
            retry: whether a failed try is followed by another one; None tries once.
        """
        options = NodeOptions(
            node_type=NodeType.COMPUTE, timeout=timeout, status_detail=status_detail, retry=retry
        )
        return NodeDecorator(lambda fn: self._declare(fn, options))

    def settings_route(
        self,
        *,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
        retry: Retry | None = None,
    ) -> NodeDecorator[I, S]:
        """Declare a compute node that chooses by settings, always the newest.

        When they change while it runs, it alone runs again before its output counts.

        Args:
            timeout: as for `compute`, of each time that it runs.
            status_detail: text shown while it runs.
            retry: as for `compute`.
        """
        options = NodeOptions(
            node_type=NodeType.COMPUTE,
            timeout=timeout,
            status_detail=status_detail,
            retry=retry,
            settings_route=True,
        )
        return NodeDecorator(lambda fn: self._declare(fn, options))

    def action(
        self,
        *,
        effect: EffectSpec[I] | None = None,
        request: Callable[[Ctx[I, S]], Any] | None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
        retry: Retry | None = None,
    ) -> NodeDecorator[I, S]:
        """Declare a node that changes the world outside.

        Args:
            effect: `idempotent("...")`, `observe("...", look)` or `manual("...")`: what a crash
                in the middle means. Required; `build()` refuses an action without.
            request: gives the effect's request payload as JSON: the same key with another
                request is a conflict. Input and outputs stand for it when unsaid.
            timeout: as for `compute`.
            status_detail: text shown while it runs.
            retry: as for `compute`; all tries carry out one effect, under one key.
        """
        options = NodeOptions(
            node_type=NodeType.ACTION,
            timeout=timeout,
            status_detail=status_detail,
            effect=effect,
            request=request,
            retry=retry,
        )
        return NodeDecorator(lambda fn: self._declare(fn, options))

    @overload
    def shell(
        self,
        *,
        effect: EffectSpec[I] | None = None,
        parse: None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
        allow_nonzero_exit: bool = False,
        max_output_chars: int = OUTPUT_CHARS_DEFAULT,
        updates: LineParser | UpdateLines | None = None,
        retry: Retry | None = None,
    ) -> ShellDecorator[I, S, ShellResult]: ...
    @overload
    def shell(
        self,
        *,
        effect: EffectSpec[I] | None = None,
        parse: Callable[[ShellResult], T],
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
        allow_nonzero_exit: bool = False,
        max_output_chars: int = OUTPUT_CHARS_DEFAULT,
        updates: LineParser | UpdateLines | None = None,
        retry: Retry | None = None,
    ) -> ShellDecorator[I, S, T]: ...
    def shell(
        self,
        *,
        effect: EffectSpec[I] | None = None,
        parse: Callable[[ShellResult], Any] | None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
        allow_nonzero_exit: bool = False,
        max_output_chars: int = OUTPUT_CHARS_DEFAULT,
        updates: LineParser | UpdateLines | None = None,
        retry: Retry | None = None,
    ) -> ShellDecorator[I, S, Any]:
        """Declare a node that runs a command; its function returns the `Command`.

        Args:
            effect: as for `action`; required.
            parse: turns the `ShellResult` into the output; its return annotation is the output's
                type. The `ShellResult` itself is the output when unsaid.
            timeout: as for `compute`; the command is killed at the deadline.
            status_detail: text shown while it runs.
            allow_nonzero_exit: take a non-zero exit code or a signal as `ok`.
            max_output_chars: of each stream, at least 1; the rest is cut and flagged.
            updates: a function of a line of standard output that returns an `Update`, several, or
                None; or `UpdateLines(function, streams=...)`. Called while the command runs.
            retry: as for `action`.
        """
        options = NodeOptions(
            node_type=NodeType.SHELL,
            timeout=timeout,
            status_detail=status_detail,
            effect=effect,
            shell=ShellOptions(parse, allow_nonzero_exit, max_output_chars),
            updates=updates,
            retry=retry,
        )
        return ShellDecorator(lambda fn: self._declare(fn, options))

    def build(self, start: Target) -> Definition[I]:
        """Check everything and freeze the workflow.

        Raises:
            DefinitionError: with every problem found, here and since `Workflow(...)`.
        """
        self._refuse_if_built()
        frame = caller_frame()
        location = Location(frame.f_code.co_filename, frame.f_lineno)
        problems = self._problems.copy()
        self._check_mount_names(self._nodes, problems)
        check_includes(self._includes, problems)
        input_codec = self._input_codec(problems)
        codecs = {
            node_id: node.codec(frame.f_locals, problems) for node_id, node in self._nodes.items()
        }
        if not codecs:
            message = "it has no nodes; decorate a function with @wf.compute()."
            problems.add(INVALID, message, location=self._location)
        input_type = UNDECLARED if self._input is None else input_codec.declared
        for node in self._nodes.values():
            node.check_contexts(input_type, self._settings_type, frame.f_locals, problems)
        declared = {node_id: codec.declared for node_id, codec in codecs.items()}
        graph = Graph(self._owner, declared, self._includes, problems)
        for edge in self._edges:
            graph.add(edge)
        for node_id, node in self._nodes.items():
            if node.chooses:
                graph.check_chosen(node_id, node.location)
        exits = self._checked_exits(graph, codecs, problems)
        start_at = graph.start(start, location)
        if start_at is not None:
            graph.check_reachable(start_at, location)
        if problems or start_at is None:
            exits = self._named_exits(exits)
            unfinished = self._definition(input_codec, {}, graph, exits, start_at or "")
            raise DefinitionError(problems.found, unfinished)
        self._built = True
        return self._definition(input_codec, codecs, graph, exits, start_at)

    def _definition(
        self,
        input_codec: Codec,
        codecs: Mapping[str, Codec],
        graph: Graph,
        exits: Mapping[str, ExitDefinition],
        start_at: str,
    ) -> Definition[I]:
        source: object = self._source or self._location.file
        return Definition(
            name=self._name,
            contract_id=self._contract_id,
            input_codec=input_codec,
            title=_title(self._title),
            nodes={id_: self._nodes[id_].definition(codec) for id_, codec in codecs.items()},
            edges=dict(graph.edges),
            start_at=start_at,
            max_steps=self._max_steps,
            presentation_prompt=cast(
                "str | PresentationCallback | None", self._presentation_prompt
            ),
            source=Path(source if isinstance(source, str | Path) else self._location.file),
            owner=self._owner,
            exits=exits,
            includes=dict(self._includes),
            settings=self._settings,
        )

    def _input_codec(self, problems: Problems) -> Codec:
        if self._input is None:
            return ANY_JSON
        try:
            return Codec(self._input)
        except UndeclarableType as error:
            message = f"its input has no JSON form: {error}"
            problems.add(INVALID, message, location=self._location)
            return ANY_JSON

    @override
    def _declare(self, fn: Callable[..., Any], options: NodeOptions) -> Node[Any]:
        self._refuse_if_built()
        location = location_of(fn) or caller_location()
        broken = callable_rule(fn, options.decorator)
        if broken is not None:
            self._problems.add(INVALID, broken, location=location)
            self._problems.fail()
        node = declare_node(fn, options, self._owner, location, self._problems)
        node_id = node.handle.node_id
        if options.settings_route and self._settings is None:
            message = "it routes by settings; declare some: Workflow(settings=Settings(...))."
            self._problems.add(INVALID, message, node=node_id, location=location)
        if node_id in self._nodes:
            message = (
                f"the name is taken by the node on line {self._nodes[node_id].location.line}."
            )
            self._problems.add(INVALID, message, node=node_id, location=location)
        self._nodes.setdefault(node_id, node)
        return node.handle


def _title(title: Any) -> str | TitleCallback | None:  # noqa: ANN401 - checked by its rule
    """Return a title callback in its one form, of (input, name)."""
    if title is None or isinstance(title, str) or takes(title, 2):
        return cast("str | TitleCallback | None", title)
    return lambda given, _name: title(given)
