"""Nodes that talk: what is declared of agents, questions to people, and notifications (B §2)."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias

from pydantic import Field, create_model

from pi_workflows.authoring.answers import After, Choice, Choices, choice_id
from pi_workflows.authoring.budgets import budget_ms
from pi_workflows.authoring.callables import is_async, with_context, yields
from pi_workflows.authoring.choice_rules import choices_rules, default_rules, members_rule
from pi_workflows.authoring.route import Route
from pi_workflows.authoring.rules import positive_rule, validator_rule
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.notices import NOTICE_KINDS

WORKFLOW_TOOL: Final = "workflow"

_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """A model's turn whose result is submitted as JSON.

    Attributes:
        expects: what the model is told of the result; None says only its type.
        validate: takes the submitted value and returns it, or raises; None lets every one pass.
        allowed_tools: None allows all, an empty list none but submit and update.
        members: the choices, for a node that chooses; else None.
        field: which field of the result has the choice.
    """

    expects: object = None
    validate: Callable[[Any], Any] | None = None
    allowed_tools: Sequence[str] | None = None
    members: type[Enum] | None = None
    field: object = "route"

    @property
    def decorator(self) -> str:
        """Name of the decorator, as an author writes it."""
        return "agent" if self.members is None else "choose"

    def broken_rules(self) -> Iterator[str | None]:
        """Yield what is wrong with it."""
        if self.expects is not None and not (isinstance(self.expects, str) and self.expects):
            yield "expects is text: what the result has to be."
        yield validator_rule(self.validate)
        yield tools_rule(self.allowed_tools)
        if self.members is not None:
            yield members_rule(self.members)
            if not isinstance(self.field, str) or _FIELD.fullmatch(self.field) is None:
                yield "field is named by letters, digits and _, not starting with a digit."

    def stored(self) -> JsonObject:
        """Return what the snapshot says of it."""
        stored: JsonObject = {"expectedOutput": {"type": "submitted"}}
        if self.expects is not None:
            stored["expectedOutput"] = {"type": "submitted", "text": str(self.expects)}
        if self.members is not None:
            choices: list[JsonValue] = [choice_id(member) for member in self.members]
            stored["decision"] = {"field": str(self.field), "choices": choices}
        return stored | stored_tools(self.allowed_tools)


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """A model's turn whose visible answer is the result.

    Attributes:
        max_chars: longest answer; None has no limit.
        unknown: options that no such node has.
    """

    decorator: ClassVar[str] = "assistant_message"

    max_chars: object = None
    allowed_tools: Sequence[str] | None = None
    unknown: tuple[str, ...] = ()

    def broken_rules(self) -> Iterator[str | None]:
        """Yield what is wrong with it."""
        if self.max_chars is not None:
            yield positive_rule(self.max_chars, "max_chars")
        yield tools_rule(self.allowed_tools)
        for name in self.unknown:
            why = ": its answer is visible before it could be refused" * (name == "validate")
            yield f"an assistant message has no option {name}{why}."

    def stored(self) -> JsonObject:
        """Return what the snapshot says of it."""
        expected: JsonObject = {"type": "assistant-message"}
        if isinstance(self.max_chars, int):
            expected["maxChars"] = self.max_chars
        return {"expectedOutput": expected} | stored_tools(self.allowed_tools)


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """A question whose answer becomes the output.

    Attributes:
        summary: what the question says when the function gives nothing; None says nothing.
    """

    decorator: ClassVar[str] = "checkpoint"

    summary: object = None

    def broken_rules(self) -> Iterator[str | None]:
        """Yield what is wrong with it."""
        if self.summary is not None and not isinstance(self.summary, str):
            yield "summary is text."

    def stored(self) -> JsonObject:
        """Return what the snapshot says of it."""
        return {} if self.summary is None else {"summary": str(self.summary)}


@dataclass(frozen=True, slots=True)
class HumanOptions:
    """A decision of a person.

    Attributes:
        audience: who decides: a text, or a function of the context that gives one.
        on_timeout: None waits as long as the card says.
    """

    decorator: ClassVar[str] = "human"

    audience: str | Callable[..., Any]
    choices: Choices[Any]
    on_timeout: After[Any] | None = None

    def broken_rules(self) -> Iterator[str | None]:
        """Yield what is wrong with it."""
        yield _audience_rule(self.audience)
        broken = list(choices_rules(self.choices))
        yield from broken
        if self.on_timeout is not None and not broken:
            yield from default_rules(self.choices, self.on_timeout)

    def stored(self) -> JsonObject:
        """Return what the snapshot says of it."""
        listed: list[JsonValue] = [
            _stored_choice(member, self.choices.choices[member]) for member in self.choices.members
        ]
        stored: JsonObject = {
            "audience": self.audience if isinstance(self.audience, str) else None,
            "choices": listed,
        }
        if not isinstance(self.audience, str):
            stored["audience"] = {"dynamic": True}
        if self.on_timeout is not None:
            response: JsonObject = {"choice": choice_id(self.on_timeout.choice)}
            if self.on_timeout.input:
                response["input"] = dict(self.on_timeout.input)
            after_ms = budget_ms(self.on_timeout.delay)
            stored["onTimeout"] = {"afterMs": after_ms, "response": response}
        return stored


@dataclass(frozen=True, slots=True)
class NoticeOptions:
    """A message to the conversation that a run belongs to.

    Attributes:
        kind: `progress` or `final`.
    """

    decorator: ClassVar[str] = "notify"

    kind: object = "progress"

    def broken_rules(self) -> Iterator[str | None]:
        """Yield what is wrong with it."""
        if self.kind not in NOTICE_KINDS:
            yield 'kind is "progress" or "final".'

    def stored(self) -> JsonObject:
        """Return what the snapshot says of it."""
        return {"kind": str(self.kind)}


Conversation: TypeAlias = (
    AgentOptions | ReplyOptions | CheckpointOptions | HumanOptions | NoticeOptions
)


def chosen_type(members: type[Enum], field: str) -> Any:  # noqa: ANN401 - a type form
    """Return the type of the output of a node that chooses; `members` and `field` are sound."""
    declared: Any = Route[members]  # type: ignore[valid-type]
    if field == "route":
        return declared
    route: Any = (members, Field(alias=field))
    return create_model(f"Route[{members.__name__}]", __base__=declared, route=route)


def tools_rule(tools: object) -> str | None:
    """Check the tools that a model may use; None is fine."""
    if tools is None:
        return None
    named = list(tools) if isinstance(tools, list | tuple) else [None]
    if not all(isinstance(tool, str) and tool.strip() for tool in named):
        return 'allowed_tools is a list of names: allowed_tools=["read", "grep"].'
    if len(set(named)) != len(named):
        return "allowed_tools names a tool twice."
    if WORKFLOW_TOOL in named:
        return f'allowed_tools has "{WORKFLOW_TOOL}", which no step may use; take it out.'
    return None


def stored_tools(tools: Sequence[str] | None) -> JsonObject:
    """Return what the snapshot says of sound tools: nothing when all are allowed."""
    return {} if tools is None else {"allowedTools": [*sorted(tools)]}


def _audience_rule(audience: object) -> str | None:
    if isinstance(audience, str):
        return None if audience.strip() else "audience is blank; say who decides."
    if not callable(audience) or with_context(audience) is None:
        return "audience is text or a function of the context, or of nothing, that gives text."
    if is_async(audience) or yields(audience):
        return "audience is an ordinary function, neither async nor a generator."
    return None


def _stored_choice(member: Enum, given: Choice) -> JsonObject:
    stored: JsonObject = {"id": choice_id(member), "label": given.label}
    if given.input is not None:
        stored["input"] = {
            "name": given.input.name,
            "label": given.input.label,
            "minLength": given.input.min_length,
            "maxLength": given.input.max_length,
        }
    return stored
