"""What a runner may propose, ready for the transaction: parsed, hashed, serialised before it."""

from dataclasses import dataclass
from typing import NamedTuple

from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.protocol.content import ContentReference
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.ids import EffectId, RunId, WorkerEpoch
from pi_workflows.protocol.states import EffectAttemptOutcome, MountRole, RunStatus, StepOutcome
from store.blobs import Blob
from store.contents import Body, StagedContent
from store.settings_scopes import Bound


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Begin a try of a node.

    Attributes:
        started_at: UTC epoch ms, the runner's clock.
        status_detail: what the run says of itself meanwhile; None says nothing.
        settings_known: the change up to which the runner has the settings that this try will run
            with; None when it has none.
    """

    attempt_id: str
    node_id: str
    node_type: str
    visit: int
    started_at: int
    status_detail: str | None
    settings_known: int | None = None


@dataclass(frozen=True, slots=True)
class SetDeadline:
    """Give the running try its budget in ms; 0 is unlimited."""

    attempt_id: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class FinishAttempt:
    """End the running try and record it as a step, unless it is to be tried again.

    Attributes:
        retry: another try of the visit follows by the node's declared retry; this one is no step.
        retry_after_ms: how long the node's code wants to wait before it; None: as declared.
        output: None unless the outcome is ok.
        output_value: the parsed output, for routing; None for a staged one.
        error_text: None when the outcome is ok.
    """

    attempt_id: str
    node_id: str
    outcome: StepOutcome
    output: Body | None
    output_value: JsonValue
    error: Blob | None
    error_text: str | None
    receipt: Body | None
    retry: bool = False
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CrossMount:
    """End the running try, which has entered or left an included workflow, and record it.

    Attributes:
        output_value: the parsed output; None for a staged one.
    """

    attempt_id: str
    node_id: str
    role: MountRole
    output: Body
    output_value: JsonValue


@dataclass(frozen=True, slots=True)
class ReserveEffect:
    """Take the running try's effect before acting on the outside world.

    Attributes:
        payload: request and recovery kind.
        observed: a look has just proven that no earlier try applied it.
    """

    attempt_id: str
    node_id: str
    visit: int
    effect_type: str
    recovery: str
    payload: Blob
    observed: bool = False


@dataclass(frozen=True, slots=True)
class SettleEffect:
    """Say how the current attempt of an effect ended.

    Attributes:
        observed: nothing was sent; a look found out how the newest attempt, closed before by
            whoever recovered the run, had ended.
        retry: the effect goes back to be tried again by the node's declared retry.
        retry_after_ms: as in the `FinishAttempt` that follows.
    """

    effect_id: EffectId
    attempt_number: int
    outcome: EffectAttemptOutcome
    result: Body | None
    error: Blob | None
    observed: bool = False
    retry: bool = False
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Notify:
    """Write the running try's notification to the conversation of the run.

    Attributes:
        kind: as the node declares it.
    """

    attempt_id: str
    node_id: str
    kind: str
    content: Blob


@dataclass(frozen=True, slots=True)
class FinishRun:
    """End the run.

    Attributes:
        final_output: None when the runner relies on the last recorded output.
        error: None exactly when the run completed.
    """

    status: RunStatus
    final_output: Blob | None
    error: Blob | None


Transition = (
    StartAttempt
    | SetDeadline
    | FinishAttempt
    | CrossMount
    | ReserveEffect
    | SettleEffect
    | Notify
    | FinishRun
)


@dataclass(frozen=True, slots=True)
class Message:
    """One runner message: an ordered list that commits as a whole or not at all.

    Attributes:
        fingerprint: SHA-256 of the message's frame; equal repeats adopt.
        definition: the graph pinned by the run's digest.
        owner_id: the server that owns the run, recorded with effect attempts.
    """

    run_id: RunId
    worker_epoch: WorkerEpoch
    message_id: str
    fingerprint: bytes
    transitions: tuple[Transition, ...]
    definition: DefinitionSnapshot
    owner_id: str

    @property
    def has_staged(self) -> bool:
        """True when a body waits beside the database: applying the message takes long."""
        return any(
            isinstance(body, StagedContent)
            for transition in self.transitions
            for body in _bodies(transition)
        )


def _bodies(transition: Transition) -> tuple[Body | None, ...]:
    match transition:
        case FinishAttempt():
            return transition.output, transition.receipt
        case CrossMount():
            return (transition.output,)
        case SettleEffect():
            return (transition.result,)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Granted:
    """Answer to a reserved effect.

    Attributes:
        attempt_number: the attempt that may act now; with `pending` the newest earlier one, whose
            effect has to be looked for first; 0 when the effect is settled and nothing may run.
        result: saved result of an applied effect; None also for a large one.
        error: why a rejected effect is so; None when nobody said.
        content: what a large result is known by; None for any other.
    """

    effect_id: EffectId
    status: str
    attempt_number: int
    result: JsonValue
    error: str | None = None
    content: ContentReference | None = None


class Notice(NamedTuple):
    """Answer to a notification; both are None in a run that belongs to no conversation."""

    message_id: str | None
    session_id: str | None


class Advanced(NamedTuple):
    """Answer to a runner message.

    Attributes:
        revision: of the run, after the last transition.
        grants: one entry per transition; None for those that grant no effect.
        ended: the run is terminal now.
        parked: the run waits for a person now, its lease is free.
        progressed: an attempt finished or an effect was settled (README 31).
        adopted: the answer was stored before; nothing was done again.
        bindings: one entry per transition; None for those that bind no try to settings.
        notices: one entry per transition; None for those that notify nobody.
    """

    revision: int
    grants: tuple[Granted | None, ...]
    ended: bool
    parked: bool
    progressed: bool
    adopted: bool = False
    bindings: tuple[Bound | None, ...] = ()
    notices: tuple[Notice | None, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether a transition is answered with more than that it was accepted."""
        told = (*self.grants, *self.bindings, *self.notices)
        return any(one is not None for one in told)
