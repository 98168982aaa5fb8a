"""What the engine loop says and hears: plain data, for a socket or a simulator to carry."""

import enum
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from pi_workflows.authoring.context import EffectIdentity, StepResult
from pi_workflows.authoring.definition import NodeDefinition
from pi_workflows.authoring.settings_copy import SettingsCopy
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome

ERROR_CHARS_MAX: Final = 8_192
"""Longest error text of a message, in characters."""


@dataclass(frozen=True, slots=True)
class Send:
    """One message for the server; the loop goes on with its `Reply`.

    Attributes:
        operation: `runner.ready`, `run.state`, `run.advance`, ….
        expected_revision: the run revision this message builds on; None before it is known and
            for messages that build on none.
    """

    operation: str
    payload: JsonObject
    expected_revision: int | None


@dataclass(frozen=True, slots=True)
class Reply:
    """The server's answer to one `Send`.

    Attributes:
        revision: the run revision after it; None when the message does not concern one.
        error: why it was rejected; None otherwise.
    """

    outcome: WorkerMessageOutcome
    revision: int | None = None
    result: JsonObject = field(default_factory=dict)
    error: str | None = None


class Purpose(enum.Enum):
    """Which callback of a node is to run."""

    NODE = enum.auto()
    TIMEOUT = enum.auto()
    REQUEST = enum.auto()
    OBSERVE = enum.auto()
    PRESENT = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One piece of user code to run; the loop goes on with its `CallResult`.

    Attributes:
        visit: of the node in the current invocation of its workflow, from 1.
        attempt: 1 plus the failed tries of the visit.
        input: the input of the node's workflow as stored.
        outputs: latest `ok` output per node; a later other outcome removes it.
        results: latest result per node, whatever its outcome.
        attempt_id: which try it belongs to.
        effect: the reserved effect; None for a node that declares none.
        settings: as stored, of the node's workflow; None when it declares none.
        timeout_ms: budget, counted from the moment the code starts; None is unlimited.
        abandon: what must be sent if the code ignores its deadline: it records the time-out and
            nothing after it, because the process has to end then.
    """

    purpose: Purpose
    node: NodeDefinition
    run_id: str
    attempt_id: str
    visit: int
    attempt: int = 1
    input: JsonValue
    outputs: Mapping[str, JsonValue]
    results: Mapping[str, StepResult]
    effect: EffectIdentity | None
    settings: SettingsCopy[JsonValue] | None = None
    timeout_ms: int | None
    abandon: Send


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """How one piece of user code ended.

    Attributes:
        outcome: `ok`, `failed` or `timed_out`.
        output: JSON after `ok`; for `Purpose.TIMEOUT` the budget in milliseconds, null for none;
            for `Purpose.REQUEST` the effect's request; for `Purpose.OBSERVE` what was seen, as
            `observed` makes it; for `Purpose.PRESENT` the text, null for none.
        error: text of at most `ERROR_CHARS_MAX` characters; None after `ok`.
        receipt: what an action or shell node did, even when it failed; None for others.
        revision: of the run, if the code has moved it by what it sent itself; else None.
        uncertain: whether its effect may have happened although the outcome is not `ok`.
        returned: whether the code did its work and only its output was refused: the effect is
            applied then, and the try is the last one.
        final: whether no declared retry may follow.
        settings: what the settings of an included workflow are at first; of its entry alone.
        retry_after_ms: how long the code wants to wait before a retry; None leaves that to the
            node's rule.
    """

    outcome: StepOutcome
    output: JsonValue = None
    error: str | None = None
    receipt: JsonObject | None = None
    revision: int | None = None
    uncertain: bool = False
    returned: bool = False
    final: bool = False
    settings: JsonValue = None
    retry_after_ms: int | None = None


class ExitReason(enum.StrEnum):
    """Why the child ends, as `runner.exiting` names it; `claimLost` is never sent."""

    FINISHED = "finished"
    PARKED = "parked"
    ABANDONED_CODE = "abandonedCode"
    STOPPED = "stopped"
    FAILED = "failed"
    REJECTED = "rejected"
    CLAIM_LOST = "claimLost"


@dataclass(frozen=True, slots=True)
class Ending:
    """The loop is over."""

    reason: ExitReason
    detail: str | None = None


class Origin(Protocol):
    """Where the loop gets what is not decided by its messages."""

    def attempt_id(self) -> str:
        """Return a new `attempt-<uuid7>`."""
        ...

    def now_ms(self) -> int:
        """Return UTC epoch milliseconds."""
        ...


EngineLoop: TypeAlias = Generator[Send | Call, Reply | CallResult, Ending]


def bounded_text(text: str, limit: int = ERROR_CHARS_MAX) -> str:
    """Return `text` as something that can be stored: at most `limit` UTF-16 units, no surrogates.

    A cut is marked at its end.
    """
    mark = " … (cut)"
    clean = text.encode("utf-8", "replace").decode()
    units = clean.encode("utf-16-le")
    if len(units) // 2 <= limit:
        return clean
    kept = units[: 2 * (limit - len(mark))].decode("utf-16-le", "ignore")
    return kept + mark
