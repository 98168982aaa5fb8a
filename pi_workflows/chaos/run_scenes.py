"""Runs for scenarios: a small workflow, who owns a run of it, and the words of its runner.

run = served(s)

@s.actor()
async def runner(me: Me) -> None:
start = run.starts(FETCH)
await tell(me, run, start, run.finishes(start))
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pi_workflows.chaos.courier import CONTROL, Courier, Runner, courier
from pi_workflows.chaos.scene import AnswerLost, Command, Me, ResultT, Scene
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import (
    WorkerEpoch,
)
from pi_workflows.protocol.states import (
    ActorType,
    OwnerType,
    RecoveryKind,
    WorkerStatus,
)
from store import recovery, run_claiming, run_messages, run_parking, runs, workers
from store.authority import Claim, Permit, holding
from store.blobs import Blob
from store.errors import (
    ClaimLostError,
    IllegalTransitionError,
    LeaseHeldError,
    NotClaimableError,
    Rejected,
)
from store.leases import Owner, host_permit
from store.proposals import (
    Transition,
)
from store.resources import Actor
from store.run_cancelling import CancelReply, cancel_run
from store.run_messages import Answered
from store.run_resuming import ResumeReply, RunEndedError, resume_run
from store.transaction import IdSource, Transaction, new_token

SERVER: Final = "server"
SYSTEM: Final = Permit(Actor(ActorType.SYSTEM))


@dataclass(frozen=True, slots=True)
class _KnownTokens:
    """Secrets that the scenario knows beforehand, beside ids as the engine makes them.

    Attributes:
        ids: None where no id is made.
    """

    secret: str
    ids: IdSource | None = None

    def new_uuid(self) -> str:
        """Return an id of the engine."""
        assert self.ids is not None
        return self.ids.new_uuid()

    def token_bytes(self, count: int = 32) -> bytes:
        """Return the known secret."""
        return self.secret.encode()[-count:].rjust(count, b".")


def queued(
    s: Scene,
    name: str = "run",
    recovery_kind: RecoveryKind = RecoveryKind.IDEMPOTENT,
    retry: JsonObject | None = None,
) -> Courier:
    """Prepare a run that waits for a server."""
    run = courier(s.run_id(name), recovery_kind, retry)
    s.prepare(run.create)
    return run


def served(
    s: Scene,
    name: str = "run",
    recovery_kind: RecoveryKind = RecoveryKind.IDEMPOTENT,
    retry: JsonObject | None = None,
) -> Runner:
    """Prepare a run whose child is in service, under the claim of `SERVER`."""
    run = queued(s, name, recovery_kind, retry)
    token = new_token(_KnownTokens(run.run_id))
    claim = Claim(run.resource, OwnerType.HOST, SERVER, 1, token)

    def serve_it(tx: Transaction) -> object:
        known = dataclasses.replace(tx, ids=_KnownTokens(run.run_id, tx.ids))
        taken = serving(run, SERVER)(known)
        assert taken.claim == claim, "the prepared claim is the one that was given out"
        return None

    s.prepare(serve_it)
    return Runner(run, claim)


def serving(run: Courier, server: str) -> Command[Runner]:
    """Return the command that claims a run and brings a child into service; older ones end."""

    def command(tx: Transaction) -> Runner:
        owner = Owner(OwnerType.HOST, server)
        claimed = run_claiming.claim_run(tx, host_permit(server), run.run_id, owner)
        _end_children(tx, run, before=claimed.claim.generation)
        runner = Runner(run, claimed.claim)
        envelope = Blob.of_json({})
        generation = claimed.claim.generation
        launch = workers.Launch(runner.worker_epoch, run.run_id, generation, 1, envelope)
        run_claiming.launch(tx, runner.permit, launch)
        run_claiming.child_ready(tx, runner.permit, run.run_id, runner.worker_epoch)
        return runner

    return command


def leaving(run: Courier) -> Command[object]:
    """Return the command by which a starting server gives up what a dead one left of a run."""

    def command(tx: Transaction) -> object:
        row = recovery.recover_run(tx, SYSTEM, run.run_id)
        _end_children(tx, run, before=holding(tx, run.resource).generation)
        return row.status

    return command


def _end_children(tx: Transaction, run: Courier, *, before: int) -> None:
    for generation in range(1, before):
        epoch = WorkerEpoch(f"{run.run_id}-child-{generation}")
        workers.end(tx, epoch, workers.WorkerEnd(WorkerStatus.ORPHANED))


async def serve(me: Me, run: Courier) -> Runner | None:
    """Claim a run and bring a child into service, in one step; None when it is not to be had."""
    try:
        return await me.do(serving(run, me.name), point="serve")
    except (LeaseHeldError, NotClaimableError, IllegalTransitionError):
        return None


async def take_over(me: Me, run: Courier) -> Runner | None:
    """Recover a run whose lease has lapsed and serve it; None when somebody has it."""
    try:
        await me.do(leaving(run), point="recover")
    except LeaseHeldError:
        return None
    return await serve(me, run)


async def tell(
    me: Me, runner: Runner, *transitions: Transition, message_id: str | None = None
) -> Answered | None:
    """Pass a message of the child on; None when its server does not own the run any more."""
    message = runner.message(*transitions, message_id=message_id)
    try:
        return await me.do(
            lambda tx: run_messages.advance_once(tx, runner.permit, message), point="tell"
        )
    except ClaimLostError:
        return None


async def launch_in_steps(me: Me, run: Courier) -> None:
    """Claim a run and launch a child as a server does, in three commits.

    What a `launch` or a `ready` comes to is whether the run had ended before.
    """
    owner = Owner(OwnerType.HOST, me.name)
    try:
        claimed = await me.do(
            lambda tx: run_claiming.claim_run(tx, host_permit(me.name), run.run_id, owner),
            point="take",
        )
    except (LeaseHeldError, NotClaimableError):
        return
    runner = Runner(run, claimed.claim)
    if await me.unless_lost(_launching(runner), "launch"):
        await me.unless_lost(_readying(runner), "ready")


def _launching(runner: Runner) -> Command[object]:
    def command(tx: Transaction) -> object:
        ended = runs.require(tx, runner.run.run_id).terminal
        envelope = Blob.of_json({})
        generation = runner.claim.generation
        launch = workers.Launch(runner.worker_epoch, runner.run.run_id, generation, 1, envelope)
        run_claiming.launch(tx, runner.permit, launch)
        return ended

    return command


def _readying(runner: Runner) -> Command[object]:
    def command(tx: Transaction) -> object:
        ended = runs.require(tx, runner.run.run_id).terminal
        run_claiming.child_ready(tx, runner.permit, runner.run.run_id, runner.worker_epoch)
        return ended

    return command


def recovering(left: Sequence[Courier]) -> Command[object]:
    """Return the command that gives up what a dead server left of many runs."""

    def command(tx: Transaction) -> object:
        for run in left:
            leaving(run)(tx)
        return None

    return command


async def leave(me: Me, runner: Runner) -> bool:
    """Give a run up as its owner; False when it is another's by now."""
    run_id = runner.run.run_id
    return await me.unless_lost(
        lambda tx: run_parking.hand_back(tx, runner.claim, run_id).status, "leave"
    )


async def cancel(me: Me, run: Courier, claim: Claim | None = None) -> CancelReply | None:
    """Cancel a run as an operator does, again if no answer comes.

    Returns:
        None when it is owned and `claim` is not its claim.
    """
    permit = Permit(Actor(ActorType.CONTROL), claim)
    return await say_again(
        me, lambda tx: cancel_run(tx, permit, run.run_id, None), "cancel", (ClaimLostError,)
    )


async def resume(me: Me, run: Courier) -> ResumeReply | None:
    """Resume a run as an operator does, again if no answer comes; None when it may not be."""
    refusals = (RunEndedError, ClaimLostError)
    return await say_again(me, lambda tx: resume_run(tx, CONTROL, run.run_id), "resume", refusals)


async def say_again(
    me: Me, command: Command[ResultT], point: str, refusals: tuple[type[Rejected], ...]
) -> ResultT | None:
    """Ask at most twice; None when the command is refused so, or no answer comes at all."""
    for _ in range(2):
        try:
            return await me.do(command, point=point)
        except refusals:
            return None
        except AnswerLost:
            continue
    return None
