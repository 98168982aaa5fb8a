"""The workflow of the shipped scenarios: a run of it, and the words of its runner."""

import dataclasses
from dataclasses import dataclass
from typing import Final, final

from pi_workflows.protocol import version
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.ids import (
    EffectId,
    ResourceId,
    RunId,
    WorkerEpoch,
    effect_id,
    run_resource_id,
)
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import (
    ActorType,
    EffectAttemptOutcome,
    RecoveryKind,
    RunStatus,
    StepOutcome,
)
from store import effects
from store.authority import Claim, Permit
from store.blobs import Blob
from store.proposals import (
    FinishAttempt,
    FinishRun,
    Message,
    ReserveEffect,
    SettleEffect,
    StartAttempt,
    Transition,
)
from store.resources import Actor
from store.run_creation import NewRun, create_run
from store.transaction import Transaction

FETCH: Final = "fetch"
ACT: Final = "act"
MAIL: Final = "mail.send"

_DONE: Final[JsonObject] = {"done": True}

CONTROL: Final = Permit(Actor(ActorType.CONTROL))


@dataclass(frozen=True, slots=True)
class Courier:
    """A run of two nodes: `fetch` computes, `act` acts outside, and that is the end.

    Attributes:
        recovery: what may be done with the effect of `act` when nobody saw its end.
        graph: as it is stored.
    """

    run_id: RunId
    recovery: RecoveryKind
    graph: JsonObject
    definition: DefinitionSnapshot

    @property
    def resource(self) -> ResourceId:
        """The resource on which the run's lease and events are."""
        return run_resource_id(self.run_id)

    @property
    def effect(self) -> EffectId:
        """The effect of `act`."""
        return effect_id(self.resource, MAIL, self.key)

    @property
    def key(self) -> str:
        """The key by which the outside can tell that a mail came twice."""
        return effects.action_key(self.run_id, MAIL, ACT, 1)

    def create(self, tx: Transaction) -> object:
        """Queue the run."""
        new = NewRun(
            run_id=self.run_id,
            workflow_name="courier",
            workflow_ref="courier",
            project_path="/projects/one",
            source=SourceIdentity(SourceKind.FILE, "/projects/one/courier.workflow.py", "ab" * 32),
            snapshot=Blob.of_json(self.graph),
            run_input=Blob.of_json({"to": "somebody"}),
            launch_options=Blob.of_json({}),
            title=None,
            origin_session_id=None,
        )
        return create_run(tx, CONTROL, new)


def courier(
    run_id: RunId,
    recovery_kind: RecoveryKind = RecoveryKind.IDEMPOTENT,
    retry: JsonObject | None = None,
) -> Courier:
    """Describe a run.

    Args:
        retry: of `fetch`, as a definition spells it; None declares none.
    """
    fetch: JsonObject = {"id": FETCH, "type": "compute"}
    if retry is not None:
        fetch["retry"] = retry
    effect: JsonObject = {"type": MAIL, "recovery": recovery_kind.value}
    graph: JsonObject = {
        "schema": version.DEFINITION_SNAPSHOT,
        "name": "courier",
        "startAt": FETCH,
        "maxSteps": 6,
        "nodes": [fetch, {"id": ACT, "type": "action", "effect": effect}],
        "edges": [{"from": FETCH, "to": ACT}],
        "mounts": [],
        "settings": None,
    }
    return Courier(run_id, recovery_kind, graph, DefinitionSnapshot.parse(graph))


@final
@dataclass(frozen=True, slots=True)
class Runner:
    """A run in service: the claim it is served under, and what its one child may say.

    Attributes:
        claim: its generation numbers the child as well.
    """

    run: Courier
    claim: Claim

    @property
    def permit(self) -> Permit:
        """What the server shows when it passes the child's words on."""
        return Permit(Actor(ActorType.HOST, self.claim.owner_id), self.claim)

    @property
    def worker_epoch(self) -> WorkerEpoch:
        """The id of the child."""
        return WorkerEpoch(f"{self.run.run_id}-child-{self.claim.generation}")

    def starts(self, node_id: str) -> StartAttempt:
        """Propose a try of a node, in its first visit."""
        node = self.run.definition.nodes[node_id]
        attempt_id = f"{self.worker_epoch}-{node_id}"
        return StartAttempt(attempt_id, node_id, node.node_type, 1, 0, None)

    def finishes(self, start: StartAttempt) -> FinishAttempt:
        """Propose that a try went well."""
        return _finish(start, StepOutcome.OK)

    def fails(self, start: StartAttempt, *, retry: bool = False) -> FinishAttempt:
        """Propose that a try failed; `retry` announces another one."""
        return dataclasses.replace(_finish(start, StepOutcome.FAILED), retry=retry)

    def reserves(self, start: StartAttempt, *, observed: bool = False) -> ReserveEffect:
        """Propose to act outside; `observed` says that a look found nothing there."""
        kind = self.run.recovery.value
        payload = Blob.of_json({"request": "please", "recovery": kind})
        return ReserveEffect(
            start.attempt_id, start.node_id, start.visit, MAIL, kind, payload, observed
        )

    def settles(
        self,
        outcome: EffectAttemptOutcome = EffectAttemptOutcome.APPLIED,
        *,
        number: int = 1,
        observed: bool = False,
    ) -> SettleEffect:
        """Propose how the effect's try `number` ended; `observed` says that a look found out."""
        applied = outcome is EffectAttemptOutcome.APPLIED
        result = Blob.of_json(_DONE) if applied else None
        return SettleEffect(self.run.effect, number, outcome, result, None, observed)

    def completes(self) -> FinishRun:
        """Propose the good end."""
        return FinishRun(RunStatus.COMPLETED, Blob.of_json(_DONE), None)

    def message(self, *transitions: Transition, message_id: str | None = None) -> Message:
        """Make a message; its id and fingerprint follow from what it says.

        Args:
            message_id: None means that a message that says something else has another id.
        """
        fingerprint = Blob.of_text(repr(transitions)).blob_hash
        return Message(
            run_id=self.run.run_id,
            worker_epoch=self.worker_epoch,
            message_id=message_id or fingerprint.hex()[:12],
            fingerprint=fingerprint,
            transitions=transitions,
            definition=self.run.definition,
            owner_id=self.claim.owner_id,
        )


def _finish(start: StartAttempt, outcome: StepOutcome) -> FinishAttempt:
    if outcome is StepOutcome.OK:
        output = Blob.of_json(_DONE)
        return FinishAttempt(
            start.attempt_id, start.node_id, outcome, output, _DONE, None, None, None
        )
    error = "it did not work"
    return FinishAttempt(
        start.attempt_id, start.node_id, outcome, None, None, Blob.of_text(error), error, None
    )
