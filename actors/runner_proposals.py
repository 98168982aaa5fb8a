"""The wire form of a runner's proposals: checked field by field, then hashed for the store."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from pi_workflows.protocol.canonical import CanonicalError
from pi_workflows.protocol.ids import EffectId
from pi_workflows.protocol.states import EffectAttemptOutcome, RecoveryKind, RunStatus, StepOutcome
from store.blobs import Blob
from store.proposals import (
    FinishAttempt,
    FinishRun,
    ReserveEffect,
    SetDeadline,
    SettleEffect,
    StartAttempt,
    Transition,
)

ERROR_CHARS_MAX = 8_192
TIMEOUT_MS_MAX = 2**53 - 1


class ProposalMalformed(ValueError):
    """A message does not have the form its operation demands; names fields, never values."""


class _Wire(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True
    )


_Id = Annotated[str, Field(min_length=1, max_length=256)]
_Text = Annotated[str, Field(max_length=ERROR_CHARS_MAX)]


class _StartAttempt(_Wire):
    type: Literal["startAttempt"]
    attempt_id: _Id
    node_id: _Id
    node_type: _Id
    visit: Annotated[int, Field(gt=0)]
    started_at: Annotated[int, Field(ge=0)]
    status_detail: _Text | None = None

    def transition(self) -> Transition:
        return StartAttempt(
            self.attempt_id,
            self.node_id,
            self.node_type,
            self.visit,
            self.started_at,
            self.status_detail,
        )


class _SetDeadline(_Wire):
    type: Literal["setDeadline"]
    attempt_id: _Id
    timeout_ms: Annotated[int, Field(ge=0, le=TIMEOUT_MS_MAX)]

    def transition(self) -> Transition:
        return SetDeadline(self.attempt_id, self.timeout_ms)


class _FinishAttempt(_Wire):
    type: Literal["finishAttempt"]
    attempt_id: _Id
    node_id: _Id
    outcome: StepOutcome
    output: JsonValue = None
    error: _Text | None = None
    receipt: dict[str, JsonValue] | None = None

    def transition(self) -> Transition:
        succeeded = self.outcome is StepOutcome.OK
        if succeeded != ("output" in self.model_fields_set) or succeeded != (self.error is None):
            raise ProposalMalformed("finishAttempt has an output exactly after ok, else an error")
        return FinishAttempt(
            self.attempt_id,
            self.node_id,
            self.outcome,
            Blob.of_json(self.output) if succeeded else None,
            self.output,
            Blob.of_text(self.error) if self.error is not None else None,
            self.error,
            Blob.of_json(self.receipt) if self.receipt is not None else None,
        )


class _ReserveEffect(_Wire):
    type: Literal["reserveEffect"]
    attempt_id: _Id
    node_id: _Id
    visit: Annotated[int, Field(gt=0)]
    effect_type: _Id
    recovery: RecoveryKind
    request: JsonValue
    observed: bool = False

    def transition(self) -> Transition:
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
    outcome: Literal["applied", "rejected", "ambiguous"]
    result: JsonValue = None
    error: _Text | None = None
    observed: bool = False

    def transition(self) -> Transition:
        applied = self.outcome == "applied"
        return SettleEffect(
            EffectId(self.effect_id),
            self.attempt_number,
            EffectAttemptOutcome(self.outcome),
            Blob.of_json(self.result) if applied else None,
            Blob.of_text(self.error) if self.error is not None else None,
            self.observed,
        )


class _FinishRun(_Wire):
    type: Literal["finishRun"]
    status: Literal["completed", "failed", "timed_out"]
    final_output: JsonValue = None
    error: _Text | None = None

    def transition(self) -> Transition:
        given = "final_output" in self.model_fields_set
        return FinishRun(
            RunStatus(self.status),
            Blob.of_json(self.final_output) if given else None,
            Blob.of_text(self.error) if self.error is not None else None,
        )


_Wires = Annotated[
    _StartAttempt | _SetDeadline | _FinishAttempt | _ReserveEffect | _SettleEffect | _FinishRun,
    Field(discriminator="type"),
]


class _Advance(_Wire):
    transitions: Annotated[list[_Wires], Field(min_length=1, max_length=64)]


_ADVANCE: TypeAdapter[_Advance] = TypeAdapter(_Advance)


def parse_advance(payload: object) -> tuple[Transition, ...]:
    """Return the transitions of a `run.advance`, in order, their values hashed and serialised.

    Raises:
        ProposalMalformed: a field is missing, unknown or out of bounds.
    """
    try:
        wires = _ADVANCE.validate_python(payload).transitions
        return tuple(wire.transition() for wire in wires)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProposalMalformed(f"{place}: {first['msg']}") from error
    except CanonicalError as error:
        raise ProposalMalformed(f"a value has no JSON form: {error}") from error
