"""The decorators of nodes that talk: to a model, to a person, to the conversation of a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Never, overload

from typing_extensions import TypeVar

from pi_workflows.authoring.answers import After, Choices, HumanAnswer
from pi_workflows.authoring.card import Card
from pi_workflows.authoring.choice_rules import choices_rules, members_rule
from pi_workflows.authoring.composition import Composition
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.conversation import (
    AgentOptions,
    CheckpointOptions,
    HumanOptions,
    NoticeOptions,
    ReplyOptions,
    chosen_type,
)
from pi_workflows.authoring.declaration import Asking, NodeOptions
from pi_workflows.authoring.decorators import AskingDecorator
from pi_workflows.authoring.handles import Node
from pi_workflows.authoring.notice import Notified
from pi_workflows.authoring.route import K, Route
from pi_workflows.authoring.timeouts import DEFAULT_TIMEOUT, TimeoutOption
from pi_workflows.protocol.states import NodeType

I = TypeVar("I")  # noqa: E741 - the letter stands for the workflow's input everywhere here
S = TypeVar("S", default=Any)
T = TypeVar("T")

_PROMPT: Final = "the prompt"


class ConversationNodes(Composition[I, S], ABC):
    """A workflow that is being written, as far as its nodes talk."""

    @abstractmethod
    def _declare(self, fn: Callable[..., Any], options: NodeOptions) -> Node[Any]:
        """Take a decorated function."""

    @overload
    def agent(
        self,
        *,
        output: type[T],
        expects: str | None = None,
        validate: Callable[[T], T] | None = None,
        allowed_tools: Sequence[str] | None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, str, T]: ...
    @overload
    def agent(
        self,
        *,
        output: None = None,
        expects: str | None = None,
        validate: Callable[[Any], Any] | None = None,
        allowed_tools: Sequence[str] | None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, str, Any]: ...
    def agent(
        self,
        *,
        output: Any = None,
        expects: str | None = None,
        validate: Callable[[Any], Any] | None = None,
        allowed_tools: Sequence[str] | None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, str, Any]:
        """Declare a step for a model, which submits JSON; its function returns the prompt.

        Args:
            output: type of what is submitted; None takes any JSON.
            expects: what the model is told of the result; None says only its type.
            validate: takes the submitted value and returns it, or raises, which refuses it.
            allowed_tools: names of the tools that the model may use; None allows all, an empty
                list only those by which it submits and publishes updates. No sandbox.
            timeout: as for `compute`; only time in which the model works counts.
            status_detail: text shown while it runs.
        """
        given = Any if output is None else output
        asked = AgentOptions(expects, validate, allowed_tools)
        asking = Asking(asked, given, str, _PROMPT)
        return self._asks(NodeType.AGENT, asking, timeout, status_detail)

    def choose(
        self,
        choices: type[K],
        *,
        field: str = "route",
        expects: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, str, Route[K]]:
        """Declare a step in which a model chooses where the run goes: `wf.route` takes it on.

        Args:
            choices: an enum of texts.
            field: name of the field of the submitted object that has the choice.
            expects: as for `agent`.
            allowed_tools: as for `agent`.
            timeout: as for `agent`.
            status_detail: text shown while it runs.
        """
        sound = members_rule(choices) is None and isinstance(field, str)
        output = chosen_type(choices, field) if sound else Any
        asked = AgentOptions(expects, None, allowed_tools, choices, field)
        asking = Asking(asked, output, str, _PROMPT)
        return self._asks(NodeType.AGENT, asking, timeout, status_detail)

    def assistant_message(
        self,
        *,
        max_chars: int | None = None,
        allowed_tools: Sequence[str] | None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
        **unknown: Never,
    ) -> AskingDecorator[I, S, str, str]:
        """Declare a step whose result is the visible answer of a model, word for word.

        Its function returns the prompt.

        Args:
            max_chars: a longer answer fails the step, although it is visible; None is no limit.
            allowed_tools: as for `agent`.
            timeout: as for `agent`.
            status_detail: text shown while it runs.
            unknown: there are no other options; `build()` refuses them by name.
        """
        asked = ReplyOptions(max_chars, allowed_tools, tuple(unknown))
        asking = Asking(asked, str, str, _PROMPT)
        return self._asks(NodeType.AGENT, asking, timeout, status_detail)

    @overload
    def checkpoint(
        self,
        *,
        summary: str | None = None,
        answer: type[T],
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, Any, T]: ...
    @overload
    def checkpoint(
        self,
        *,
        summary: str | None = None,
        answer: None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, Any, Any]: ...
    def checkpoint(
        self,
        *,
        summary: str | None = None,
        answer: Any = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, Any, Any]:
        """Declare a point where the run waits for an answer, which becomes the output.

        Its function returns what is asked, as JSON; None asks with the summary.

        Args:
            summary: what the question says when the function returns None.
            answer: type of the answer; None takes any JSON.
            timeout: of the function; waiting for the answer has no deadline.
            status_detail: text shown while it waits.
        """
        given = Any if answer is None else answer
        asking = Asking(CheckpointOptions(summary), given, None, "what is asked")
        return self._asks(NodeType.CHECKPOINT, asking, timeout, status_detail)

    def human(
        self,
        *,
        audience: str | Callable[[Ctx[I, S]], str],
        choices: Choices[K],
        on_timeout: After[K] | None = None,
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, Card, HumanAnswer[K]]:
        """Declare a decision of a person, which no model can take; its function returns the card.

        Args:
            audience: who decides: text, or a function of the context.
            choices: the answers, one per member of an enum.
            on_timeout: the answer that counts when nobody has given one in time; None waits.
            timeout: of the function; waiting for the person has no deadline but `on_timeout`.
            status_detail: text shown while it waits.
        """
        output: Any = Any
        if not list(choices_rules(choices)):
            output = HumanAnswer[choices.members]  # type: ignore[name-defined]
        asked = HumanOptions(audience, choices, on_timeout)
        asking = Asking(asked, output, Card, "the card")
        return self._asks(NodeType.HUMAN, asking, timeout, status_detail)

    def notify(
        self,
        *,
        kind: str = "progress",
        timeout: TimeoutOption[I, S] = DEFAULT_TIMEOUT,
        status_detail: str | None = None,
    ) -> AskingDecorator[I, S, str, Notified]:
        """Declare a message to the conversation that the run belongs to; no model answers it.

        Its function returns the text, which is trimmed and must not be blank. The message stands
        once the node has ended `ok`, whatever becomes of the run. Each visit sends one.

        Args:
            kind: `progress` or `final`.
            timeout: as for `compute`.
            status_detail: text shown while it runs.
        """
        asking = Asking(NoticeOptions(kind), Notified, str, "the message")
        return self._asks(NodeType.NOTIFY, asking, timeout, status_detail)

    def _asks(
        self,
        node_type: NodeType,
        asking: Asking,
        timeout: TimeoutOption[I, S],
        status_detail: str | None,
    ) -> AskingDecorator[I, S, Any, Any]:
        options = NodeOptions(
            node_type=node_type, timeout=timeout, status_detail=status_detail, asking=asking
        )
        return AskingDecorator(lambda fn: self._declare(fn, options))
