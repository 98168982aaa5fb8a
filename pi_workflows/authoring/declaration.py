"""Nodes as their decorators saw them, and how `build()` turns them into definitions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pi_workflows.authoring.budgets import Unlimited, budget_ms
from pi_workflows.authoring.callables import (
    gives_nothing,
    is_async,
    location_of,
    return_type,
    with_context,
    yields,
)
from pi_workflows.authoring.codec import ANY_JSON, Codec, UndeclarableType
from pi_workflows.authoring.contexts import wrong_contexts
from pi_workflows.authoring.conversation import AgentOptions, Conversation, HumanOptions
from pi_workflows.authoring.definition import Look, NodeDefinition, ShellOptions
from pi_workflows.authoring.effects import EffectSpec, effect_problem
from pi_workflows.authoring.errors import Location, Problems
from pi_workflows.authoring.handles import Node
from pi_workflows.authoring.retry import checked_retry
from pi_workflows.authoring.rules import (
    function_rule,
    node_name_rule,
    nonzero_exit_rule,
    output_chars_rule,
    parse_rule,
    request_rule,
    status_detail_rule,
)
from pi_workflows.authoring.shell import ShellResult
from pi_workflows.authoring.timeouts import (
    DEFAULT_TIMEOUT,
    Computed,
    DefaultTimeout,
    Fixed,
    Timeout,
)
from pi_workflows.authoring.updates import update_lines, updates_rule
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.retry import RetryRule
from pi_workflows.protocol.states import NodeType

INVALID = ErrorCode.DEFINITION_INVALID


@dataclass(frozen=True, slots=True)
class Asking:
    """What a node that talks asks or says, unchecked.

    Attributes:
        output: type of the answer.
        returns: type of what the function gives; None for any JSON.
        what: that the function gives, for error texts.
    """

    options: Conversation
    output: object
    returns: type | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What a decorator was given, unchecked."""

    node_type: NodeType
    timeout: object
    status_detail: object
    effect: object = None
    request: object = None
    shell: ShellOptions | None = None
    updates: object = None
    retry: object = None
    settings_route: bool = False
    asking: Asking | None = None

    @property
    def decorator(self) -> str:
        """Name of the decorator, as an author writes it."""
        return self.node_type.value if self.asking is None else self.asking.options.decorator


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredNode:
    """One decorated function."""

    handle: Node[Any]
    options: NodeOptions
    timeout: Timeout
    retry: RetryRule | None
    location: Location

    @property
    def chooses(self) -> bool:
        """Whether a model chooses in it where the run goes."""
        asking = self.options.asking
        asked = None if asking is None else asking.options
        return isinstance(asked, AgentOptions) and asked.members is not None

    def codec(self, local_names: Mapping[str, Any], problems: Problems) -> Codec:
        """Return the output codec, or note why the declared type has none."""
        try:
            self._check_asking(local_names, problems)
            return Codec(self._output_type(local_names))
        except (NameError, SyntaxError, TypeError) as error:
            message = f"its return annotation cannot be read: {error}."
        except UndeclarableType as error:
            message = f"its return type has no JSON form: {error}"
        fix = "Annotate a type that pydantic knows, or leave it out to return plain JSON."
        problems.add(INVALID, message, node=self.handle.node_id, fix=fix, location=self.location)
        return ANY_JSON

    def check_contexts(
        self,
        input_type: object,
        settings_type: object,
        local_names: Mapping[str, Any],
        problems: Problems,
    ) -> None:
        """Note that one of its functions takes the context of another workflow.

        The arguments are those of `wrong_contexts`.
        """
        options = self.options
        asked = None if options.asking is None else options.asking.options
        effect = options.effect
        functions = (
            self.handle.fn,
            options.timeout,
            options.request,
            effect.look if isinstance(effect, EffectSpec) else None,
            asked.audience if isinstance(asked, HumanOptions) else None,
        )
        for fn in functions:
            for message in wrong_contexts(fn, input_type, settings_type, local_names):
                location = location_of(fn) or self.location
                problems.add(INVALID, message, node=self.handle.node_id, location=location)

    def definition(self, codec: Codec) -> NodeDefinition:
        """Return the node as the runner knows it; its options were found sound."""
        options, fn = self.options, with_context(self.handle.fn)
        assert fn is not None
        request = with_context(options.request) if callable(options.request) else None
        effect = options.effect if isinstance(options.effect, EffectSpec) else None
        detail = options.status_detail if isinstance(options.status_detail, str) else None
        return NodeDefinition(
            node_id=self.handle.node_id,
            node_type=options.node_type,
            fn=fn,
            is_async=is_async(self.handle.fn),
            codec=codec,
            timeout=self.timeout,
            status_detail=detail,
            effect=effect,
            look=None if effect is None else _look(effect),
            request=request,
            shell=_with_updates(options),
            retry=self.retry,
            location=self.location,
            settings_route=options.settings_route,
            conversation=None if options.asking is None else options.asking.options,
        )

    def _check_asking(self, local_names: Mapping[str, Any], problems: Problems) -> None:
        """Note that a node which talks has a function of another kind."""
        asking = self.options.asking
        if asking is None or asking.returns is None:
            return
        declared = return_type(self.handle.fn, local_names)
        wanted = asking.returns
        if declared is Any:
            if not gives_nothing(self.handle.fn):
                return
            message = f"its function returns nothing; return {asking.what}."
        elif isinstance(declared, type) and issubclass(declared, wanted):
            return
        else:
            message = f"its function returns {asking.what}; annotate it: -> {wanted.__name__}."
        node = self.handle.node_id
        problems.add(INVALID, message, node=node, location=self.location)

    def _output_type(self, local_names: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a type form
        if self.options.asking is not None:
            return self.options.asking.output
        shell = self.options.shell
        if shell is None:
            return return_type(self.handle.fn, local_names)
        return ShellResult if shell.parse is None else return_type(shell.parse, local_names)


def _look(effect: EffectSpec[Any]) -> Look | None:
    """Return how a sound effect is looked for; None when it is not."""
    fn = None if effect.look is None else with_context(effect.look)
    if fn is None:
        return None
    timeout_ms = budget_ms(effect.look_timeout)
    assert timeout_ms is not None, "checked when it was declared"
    return Look(fn, is_async(effect.look), timeout_ms)


def _with_updates(options: NodeOptions) -> ShellOptions | None:
    if options.shell is None:
        return None
    return replace(options.shell, updates=update_lines(options.updates))


def checked_timeout(timeout: object) -> Timeout | str:
    """Return a declared timeout, or the rule it breaks."""
    if isinstance(timeout, DefaultTimeout | Unlimited):
        return timeout
    if callable(timeout):
        fn = with_context(timeout)
        if fn is None or yields(timeout):
            return "a computed timeout is a function of the context, or of nothing; it returns."
        return Computed(fn, is_async(timeout))
    try:
        budget = budget_ms(timeout)
    except (TypeError, ValueError) as error:
        return str(error)
    return Unlimited() if budget is None else Fixed(budget)


def declare_node(
    fn: Callable[..., Any],
    options: NodeOptions,
    owner: object,
    location: Location,
    problems: Problems,
) -> DeclaredNode:
    """Check one decorated function and return it with its handle, whatever was found."""
    name = str(getattr(fn, "__name__", type(fn).__name__))
    timeout = checked_timeout(options.timeout)
    if isinstance(timeout, str):
        problems.add(INVALID, timeout, node=name, location=location)
        timeout = DEFAULT_TIMEOUT
    retry = checked_retry(options.retry)
    if isinstance(retry, str):
        problems.add(INVALID, retry, node=name, location=location)
        retry = None
    for broken in _broken_rules(name, fn, options):
        if broken is not None:
            problems.add(INVALID, broken, node=name, location=location)
    handle: Node[Any] = Node(node_id=name, fn=fn, owner=owner)
    return DeclaredNode(
        handle=handle, options=options, timeout=timeout, retry=retry, location=location
    )


def _broken_rules(name: str, fn: Callable[..., Any], options: NodeOptions) -> Iterable[str | None]:
    yield node_name_rule(name)
    yield function_rule(fn)
    yield status_detail_rule(options.status_detail)
    if options.asking is not None:
        yield from options.asking.options.broken_rules()
    elif options.node_type is not NodeType.COMPUTE:
        yield effect_problem(options.effect)
        yield request_rule(options.request)
    if options.shell is not None:
        yield parse_rule(options.shell.parse)
        yield nonzero_exit_rule(options.shell.allow_nonzero_exit)
        yield output_chars_rule(options.shell.max_output_chars)
        yield updates_rule(options.updates)
