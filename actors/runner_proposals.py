"""The wire form of a runner's proposals: checked field by field, then hashed for the store."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from pi_workflows.protocol.canonical import CanonicalError, JsonObject
from pi_workflows.protocol.definition import NODE_ID_CHARS_MAX
from pi_workflows.protocol.ids import EffectId
from pi_workflows.protocol.notices import TEXT_BYTES_MAX, text_problem
from pi_workflows.protocol.retry import WAIT_MS_MAX
from pi_workflows.protocol.states import (
    EffectAttemptOutcome,
    MountRole,
    RecoveryKind,
    RunStatus,
    StepOutcome,
)
from store.blobs import Blob
from store.contents import Body, StagedContent
from store.proposals import (
    CrossMount,
    FinishAttempt,
    FinishRun,
    Notify,
    ReserveEffect,
    SetDeadline,
    SettleEffect,
    StartAttempt,
    Transition,
)
from store.run_notifying import content_of

ERROR_CHARS_MAX = 8_192
TIMEOUT_MS_MAX = 2**53 - 1


class ProposalMalformed(ValueError):
    """A message does not have the form its operation demands; names fields, never values."""


class _Wire(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        hide_input_in_errors=True,
        defer_build=True,  # Not while a server starts: each model takes it a millisecond.
    )


Stage = Callable[[JsonObject], StagedContent]
"""Finds the body that a reference names, or raises `ContentInvalid`."""

_Id = Annotated[str, Field(min_length=1, max_length=256)]
_NodeId = Annotated[str, Field(min_length=1, max_length=NODE_ID_CHARS_MAX)]
_Text = Annotated[str, Field(max_length=ERROR_CHARS_MAX)]
_Wait = Annotated[int, Field(ge=0, le=WAIT_MS_MAX)]


class _StartAttempt(_Wire):
    type: Literal["startAttempt"]
    attempt_id: _Id
    node_id: _NodeId
    node_type: _Id
    visit: Annotated[int, Field(gt=0)]
    started_at: Annotated[int, Field(ge=0)]
    status_detail: _Text | None = None
    settings_known: Annotated[int, Field(ge=0)] | None = None

    def transition(self, _stage: Stage) -> Transition:
        return StartAttempt(
            self.attempt_id,
            self.node_id,
            self.node_type,
            self.visit,
            self.started_at,
            self.status_detail,
            self.settings_known,
        )


class _SetDeadline(_Wire):
    type: Literal["setDeadline"]
    attempt_id: _Id
    timeout_ms: Annotated[int, Field(ge=0, le=TIMEOUT_MS_MAX)]

    def transition(self, _stage: Stage) -> Transition:
        return SetDeadline(self.attempt_id, self.timeout_ms)


class _FinishAttempt(_Wire):
    type: Literal["finishAttempt"]
    attempt_id: _Id
    node_id: _NodeId
    outcome: StepOutcome
    output: JsonValue = None
    output_content: dict[str, JsonValue] | None = None
    error: _Text | None = None
    receipt: dict[str, JsonValue] | None = None
    receipt_content: dict[str, JsonValue] | None = None
    retry: bool = False
    retry_after_ms: _Wait | None = None

    def transition(self, stage: Stage) -> Transition:
        succeeded = self.outcome is StepOutcome.OK
        outputs = self.model_fields_set & {"output", "output_content"}
        if len(outputs) != int(succeeded) or succeeded != (self.error is None):
            raise ProposalMalformed("finishAttempt has an output exactly after ok, else an error")
        if self.receipt is not None and self.receipt_content is not None:
            raise ProposalMalformed("finishAttempt has its receipt twice")
        return FinishAttempt(
            self.attempt_id,
            self.node_id,
            self.outcome,
            _body(self.output, self.output_content, stage) if succeeded else None,
            self.output,
            Blob.of_text(self.error) if self.error is not None else None,
            self.error,
            _optional_body(self.receipt, self.receipt_content, stage),
            self.retry,
            self.retry_after_ms,
        )


class _CrossMount(_Wire):
    type: Literal["enterInclude", "exitInclude"]
    attempt_id: _Id
    node_id: _NodeId
    output: JsonValue = None
    output_content: dict[str, JsonValue] | None = None

    def transition(self, stage: Stage) -> Transition:
        if len(self.model_fields_set & {"output", "output_content"}) != 1:
            raise ProposalMalformed(f"{self.type} has exactly one output")
        return CrossMount(
            self.attempt_id,
            self.node_id,
            MountRole.ENTRY if self.type == "enterInclude" else MountRole.EXIT,
            _body(self.output, self.output_content, stage),
            self.output,
        )


class _ReserveEffect(_Wire):
    type: Literal["reserveEffect"]
    attempt_id: _Id
    node_id: _NodeId
    visit: Annotated[int, Field(gt=0)]
    effect_type: _Id
    recovery: RecoveryKind
    request: JsonValue
    observed: bool = False

    def transition(self, _stage: Stage) -> Transition:
        return ReserveEffect(
            self.attempt_id,
            self.node_id,
            self.visit,
            self.effect_type,
            self.recovery.value,
            Blob.of_json({"request": self.request, "recovery": self.recovery.value}),
            self.observed,
        )


class _SettleEffect(_Wire):
    type: Literal["settleEffect"]
    effect_id: _Id
    attempt_number: Annotated[int, Field(gt=0)]
    outcome: Literal["applied", "rejected", "ambiguous", "interrupted"]
    result: JsonValue = None
    result_content: dict[str, JsonValue] | None = None
    error: _Text | None = None
    observed: bool = False
    retry: bool = False
    retry_after_ms: _Wait | None = None

    def transition(self, stage: Stage) -> Transition:
        applied = self.outcome == "applied"
        return SettleEffect(
            EffectId(self.effect_id),
            self.attempt_number,
            EffectAttemptOutcome(self.outcome),
            _body(self.result, self.result_content, stage) if applied else None,
            Blob.of_text(self.error) if self.error is not None else None,
            self.observed,
            self.retry,
            self.retry_after_ms,
        )


class _Notify(_Wire):
    type: Literal["notify"]
    attempt_id: _Id
    node_id: _NodeId
    kind: Literal["progress", "final"]
    text: Annotated[str, Field(max_length=TEXT_BYTES_MAX)]

    def transition(self, _stage: Stage) -> Transition:
        problem = text_problem(self.text)
        if problem is not None:
            raise ProposalMalformed(f"notify: {problem}")
        content = content_of(self.kind, self.text)
        return Notify(self.attempt_id, self.node_id, self.kind, content)


class _FinishRun(_Wire):
    type: Literal["finishRun"]
    status: Literal["completed", "failed", "timed_out"]
    final_output: JsonValue = None
    error: _Text | None = None

    def transition(self, _stage: Stage) -> Transition:
        given = "final_output" in self.model_fields_set
        return FinishRun(
            RunStatus(self.status),
            Blob.of_json(self.final_output) if given else None,
            Blob.of_text(self.error) if self.error is not None else None,
        )


_Wires = Annotated[
    _StartAttempt
    | _SetDeadline
    | _FinishAttempt
    | _CrossMount
    | _ReserveEffect
    | _SettleEffect
    | _Notify
    | _FinishRun,
    Field(discriminator="type"),
]


class _Advance(_Wire):
    transitions: Annotated[list[_Wires], Field(min_length=1, max_length=64)]


_ADVANCE: TypeAdapter[_Advance] = TypeAdapter(_Advance)


def _body(value: JsonValue, content: dict[str, JsonValue] | None, stage: Stage) -> Body:
    return Blob.of_json(value) if content is None else stage(content)


def _optional_body(
    value: JsonValue, content: dict[str, JsonValue] | None, stage: Stage
) -> Body | None:
    return None if value is None and content is None else _body(value, content, stage)


def parse_advance(payload: object, stage: Stage) -> tuple[Transition, ...]:
    """Return the transitions of a `run.advance`, in order, their values hashed and serialised.

    Args:
        payload: of the message.
        stage: finds what stands in it by reference.

    Raises:
        ProposalMalformed: a field is missing, unknown or out of bounds.
        ContentInvalid: from `stage`.
    """
    try:
        wires = _ADVANCE.validate_python(payload).transitions
        return tuple(wire.transition(stage) for wire in wires)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProposalMalformed(f"{place}: {first['msg']}") from error
    except CanonicalError as error:
        raise ProposalMalformed(f"a value has no JSON form: {error}") from error
