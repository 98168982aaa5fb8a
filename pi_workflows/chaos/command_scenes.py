"""Requests of clients, for scenarios in which answers get lost and requests come twice."""

from collections.abc import Callable
from dataclasses import dataclass

from pi_workflows.chaos.courier import CONTROL
from pi_workflows.chaos.scene import AnswerLost, Command, Me
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import ActorType, CommandOutcome, OwnerType
from store import leases, receipts, run_cancelling
from store.authority import Operation, Permit, revise
from store.blobs import Blob
from store.leases import Owner
from store.receipts import Reply, Request
from store.resources import Actor, Happening
from store.transaction import Transaction

Action = Callable[[Transaction], Reply]


def request(request_id: str, key: str, says: str) -> Request:
    """Describe a request of the one client; equal words are one content.

    Args:
        request_id: names this sending of it.
        key: names what is wanted, however often it is sent.
    """
    fingerprint = Blob.of_text(says).blob_hash
    return Request(request_id, "client", "run.cancel", key, fingerprint, None, 1)


def counted(job: ResourceId, event: str, actor: str) -> Action:
    """Return an action that leaves an event on the job each time it is carried out."""

    def action(tx: Transaction) -> Reply:
        owner = Owner(OwnerType.HOST, actor)
        claim = leases.claim(tx, leases.host_permit(actor), job, owner)
        revision = leases.write(tx, claim, event)
        leases.release(tx, claim)
        return Reply(CommandOutcome.ACCEPTED, revision, {"revision": revision})

    return action


def cancelling(run_id: str) -> Action:
    """Return the cancel of a run by somebody who has no claim."""

    def action(tx: Transaction) -> Reply:
        found = run_cancelling.cancel_run(tx, CONTROL, run_id, None)
        outcome = CommandOutcome.ADOPTED if found.adopted else CommandOutcome.ACCEPTED
        return Reply(outcome, found.revision, {"verdict": found.verdict.value})

    return action


@dataclass(frozen=True, slots=True)
class Noted:
    """A change by somebody who had seen the resource before.

    Attributes:
        seen: the revision that he had seen.
        revision: after the change.
    """

    seen: int
    revision: int


def noting(job: ResourceId, event: str, seen: int) -> Command[Noted]:
    """Return the command that leaves an event if the job still is as it was seen."""

    def command(tx: Transaction) -> Noted:
        permit = Permit(Actor(ActorType.SYSTEM), expected_revision=seen)
        with revise(tx, permit, job, Operation.RECOVER) as recorder:
            return Noted(seen, recorder.record(Happening(event)))

    return command


async def ask(me: Me, asked: Request, action: Action) -> Reply | None:
    """Send a request; None when its answer is lost."""
    try:
        return await me.do(receipted(asked, action), point="ask")
    except AnswerLost:
        return None


def receipted(asked: Request, action: Action) -> Command[Reply]:
    """Return the command that answers a request as the server does."""
    return lambda tx: receipts.receipted(tx, asked, action)
