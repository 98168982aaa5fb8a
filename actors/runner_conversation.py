"""Answer one runner child until it is done: hello, proposals, reads, farewell."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from actors.runner_boundary import boundary
from actors.runner_channel import RunnerChannel, RunnerMessage, RunnerProtocolError, StaleRunner
from actors.runner_contents import RunnerContents
from actors.runner_ends import RunnerEnd
from actors.runner_patience import RunnerPatience
from actors.runner_presentation import FAREWELL_S, RunnerPresentation
from actors.runner_processes import ProcessRefused, RunnerProcesses
from actors.runner_proposals import ProposalMalformed, parse_advance
from actors.runner_settings import settings_problem
from actors.runner_updates import Refused, RunnerUpdates
from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.content import ContentInvalid
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.frames import FrameTooLarge
from pi_workflows.protocol.ids import WorkerEpoch
from pi_workflows.protocol.states import WorkerMessageOutcome
from runtime.identity import ProcessIdentity
from runtime.sync_points import SyncPoint
from runtime.tenure import Tenure
from store import contents, definitions, run_history
from store.authority import Permit
from store.errors import ClaimLostError
from store.proposals import Message, SettleEffect
from store.run_claiming import ClaimedRun, child_ready
from store.run_messages import Answered, advance_once
from store.run_retrying import failed_tries_ahead
from store.transaction import LongWork, Transaction

READY_S: Final = 15.0
"""How long a child may take from its launch to its hello."""

_REASON_CHARS: Final = 64
_WORDS_CHARS: Final = 2_048


_FAREWELLS: Final = {
    "finished": RunnerEnd.FINISHED,
    "parked": RunnerEnd.PARKED,
    "abandonedCode": RunnerEnd.ABANDONED_CODE,
    "stopped": RunnerEnd.TERMINATED,
    "failed": RunnerEnd.REFUSED,
    "rejected": RunnerEnd.PROTOCOL,
}

_Answer = Callable[[RunnerChannel, RunnerMessage], Awaitable[RunnerEnd | None]]


class Conversation:
    """The server's side of one child's life.

    Attributes:
        processes: what the child has started outside its session.
        presentation: what it has to say after the end of its run.
        said_goodbye: the child has announced its end.
        progressed: an attempt finished or an effect was settled since the hello (README 31).
        last_words: what the child said of its end; None when it said nothing.
    """

    def __init__(
        self, services: Services, claimed: ClaimedRun, permit: Permit, tenure: Tenure
    ) -> None:
        self._services: Final = services
        self._claimed: Final = claimed
        self._permit: Final = permit
        self._tenure: Final = tenure
        self._log: Final = services.log.bind("runner", runId=claimed.run.run_id)
        self._definition: DefinitionSnapshot = self._load_definition()
        self._patience: Final = RunnerPatience(self._definition)
        self._updates: Final = RunnerUpdates(services, claimed.run.run_id, permit)
        self._contents: Final = RunnerContents(services)
        self.presentation: Final = RunnerPresentation(services, claimed.run.run_id, permit)
        assert permit.claim is not None
        self.processes: Final = RunnerProcesses(services, permit.claim)
        self._runner: ProcessIdentity | None = None
        self._answers: Final[dict[str, _Answer]] = {
            "run.advance": self._advance,
            "run.publishUpdate": self._publish,
            "run.state": self._state,
            "runner.exiting": self._exiting,
            "runner.progress": self._progress,
            "run.present": self.presentation.store,
            "content.write": self._write,
            "content.read": self._read,
            "process.register": self._process,
            "process.unregister": self._process,
        }
        self._ended = False
        self._parked = False
        self.progressed = False
        self.said_goodbye = False
        self.last_words: str | None = None

    async def serve(self, channel: RunnerChannel, runner: ProcessIdentity) -> RunnerEnd:
        """Answer `runner` until it says goodbye, breaks off, or may not go on."""
        self._runner = runner
        try:
            with self.presentation.farewell:
                return await self._converse(channel)
            return self.broken_off()
        except StaleRunner as stale:
            self._log.warning("stale_runner")
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await channel.turn_away(stale)
            return RunnerEnd.CLAIM_LOST
        except (RunnerProtocolError, FrameTooLarge) as error:
            self._log.warning("runner_protocol_error", error=str(error))
            return RunnerEnd.PROTOCOL
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return self.broken_off()
        finally:
            await self._contents.close()

    async def _converse(self, channel: RunnerChannel) -> RunnerEnd:
        end = await self._wait_ready(channel)
        while end is None:
            message = None
            with trio.move_on_after(self._silence_s) as waiting:
                message = await channel.receive()
            if message is not None:
                end = await self._answer(channel, message)
            elif waiting.cancelled_caught and not self._ended:
                self._log.warning("runner_silent", forS=round(self._silence_s))
                return RunnerEnd.SILENT
            else:
                return self.broken_off()
        return end

    @property
    def _silence_s(self) -> float:
        """How long the child may take until its next word."""
        return self.presentation.farewell_s if self._ended else self._patience.silence_s

    def broken_off(self) -> RunnerEnd:
        """The child is gone without a word: after the end of its work that is no crash."""
        if self._ended:
            return RunnerEnd.FINISHED
        return RunnerEnd.PARKED if self._parked else RunnerEnd.CRASHED

    def _load_definition(self) -> DefinitionSnapshot:
        with self._services.readers.reading() as reading:
            return definitions.load(reading, self._claimed.run.definition_digest)

    async def _wait_ready(self, channel: RunnerChannel) -> RunnerEnd | None:
        """Wait for the hello, or for the word that the source is not the pinned one."""
        with trio.move_on_after(READY_S):
            message = await channel.receive()
            if message is None:
                return RunnerEnd.CRASHED
            if message.operation == "run.park":
                await channel.reply(message, WorkerMessageOutcome.ACCEPTED)
                self._note_words(message)
                self._log.warning("source_changed")
                await self._hear_farewell(channel)
                return RunnerEnd.SOURCE_CHANGED
            if message.operation == "runner.exiting":
                return await self._exiting(channel, message)
            if message.operation != "runner.ready":
                raise RunnerProtocolError("the first message is not runner.ready")
            return await self._ready(channel, message)
        return RunnerEnd.NOT_READY

    async def _ready(self, channel: RunnerChannel, message: RunnerMessage) -> RunnerEnd | None:
        self._services.world.sync_points.reached(SyncPoint.RUNNER_READY_BEFORE_REPLY)
        run_id = self._claimed.run.run_id
        problem = await settings_problem(self._services, run_id, self._definition)
        if problem is not None:
            self._log.warning("settings_broken")
            self.last_words = problem
            await channel.reply(message, WorkerMessageOutcome.REJECTED, error=problem)
            await self._hear_farewell(channel)
            return RunnerEnd.SETTINGS_BROKEN
        sent = trio.current_time()
        try:
            ready = await self._services.store.insist(
                lambda tx: child_ready(tx, self._permit, run_id, channel.worker_epoch)
            )
        except ClaimLostError:
            return await self._claim_lost(channel, message)
        self._tenure.extended(sent)
        with self._services.readers.reading() as reading:
            failed_tries = failed_tries_ahead(reading, run_id, self._definition)
        result: JsonObject = {
            "command": ready.command.value,
            **self._input(),
            "stepCount": ready.step_count,
            "boundary": boundary(ready, failed_tries),
        }
        await channel.reply(
            message, WorkerMessageOutcome.ACCEPTED, revision=ready.revision, result=result
        )
        return None

    def _input(self) -> JsonObject:
        with self._services.readers.reading() as reading:
            value, reference = contents.read_small(reading, self._claimed.run.input_hash)
        if reference is not None:
            return {"inputContent": self._contents.offer(reference)}
        return {"input": value}

    async def _answer(self, channel: RunnerChannel, message: RunnerMessage) -> RunnerEnd | None:
        answer = self._answers.get(message.operation, self._unknown)
        return await answer(channel, message)

    async def _unknown(self, channel: RunnerChannel, message: RunnerMessage) -> None:
        await channel.reply(message, WorkerMessageOutcome.REJECTED, error="unknown operation")

    async def _progress(self, channel: RunnerChannel, message: RunnerMessage) -> None:
        self.presentation.note(message)
        await channel.reply(message, WorkerMessageOutcome.ACCEPTED)

    async def _advance(self, channel: RunnerChannel, message: RunnerMessage) -> RunnerEnd | None:
        try:
            proposal = self._proposal(channel.worker_epoch, message)
        except (ProposalMalformed, ContentInvalid) as error:
            await channel.reply(message, WorkerMessageOutcome.REJECTED, error=str(error))
            return None
        permit = Permit(self._permit.actor, self._permit.claim, message.expected_revision)
        if any(isinstance(transition, SettleEffect) for transition in proposal.transitions):
            reached = self._services.world.sync_points.reached
            reached(SyncPoint.EFFECT_AFTER_APPLY_BEFORE_SETTLE)
        sent = trio.current_time()
        try:
            answered = await self._apply(permit, proposal)
        except ClaimLostError:
            return await self._claim_lost(channel, message)
        if answered.advanced is not None:
            self._patience.note(proposal.transitions)
            self.progressed |= answered.advanced.progressed
            self._ended |= answered.advanced.ended
            self.presentation.farewell.shield = self._ended
            self._parked |= answered.advanced.parked
            self._note_lease(sent)
            for given in (*answered.advanced.grants, *answered.advanced.bindings):
                if given is not None and given.content is not None:
                    self._contents.offer(given.content)
        await self._contents.forget_staged()
        if self._parked:
            await channel.reply(message, WorkerMessageOutcome.CLAIM_LOST)
            return RunnerEnd.PARKED
        await channel.reply(
            message,
            answered.outcome,
            revision=answered.revision,
            result=answered.result,
            error=answered.error,
        )
        return None

    async def _apply(self, permit: Permit, proposal: Message) -> Answered:
        """Apply a proposal: on the loop with others, or alone off it if a body is large."""

        def command(tx: Transaction) -> Answered:
            return advance_once(tx, permit, proposal)

        if not proposal.has_staged:
            with contextlib.suppress(LongWork):
                return await self._services.store.insist(command)
        return await self._services.store.do_long(command)

    def _note_lease(self, sent: float) -> None:
        if self._ended or self._parked:
            self._tenure.released()
        else:
            self._tenure.extended(sent)

    def _proposal(self, worker_epoch: WorkerEpoch, message: RunnerMessage) -> Message:
        return Message(
            self._claimed.run.run_id,
            worker_epoch,
            message.message_id,
            message.fingerprint,
            parse_advance(message.payload, self._contents.staged),
            self._definition,
            self._services.identity.server_id,
        )

    async def _publish(self, channel: RunnerChannel, message: RunnerMessage) -> RunnerEnd | None:
        sent = trio.current_time()
        try:
            answered = await self._updates.publish(channel.worker_epoch, message)
        except ClaimLostError:
            return await self._claim_lost(channel, message)
        if isinstance(answered, Refused):
            await channel.reply(message, WorkerMessageOutcome.REJECTED, error=answered.error)
            return None
        if answered.outcome is not WorkerMessageOutcome.REJECTED:
            self._tenure.extended(sent)
        await channel.reply(
            message,
            answered.outcome,
            revision=answered.revision,
            result=answered.result,
            error=answered.error,
        )
        return None

    async def _state(self, channel: RunnerChannel, message: RunnerMessage) -> RunnerEnd | None:
        from_node = message.payload.get("fromNode")
        if type(from_node) is not int or from_node < 0:
            await channel.reply(
                message, WorkerMessageOutcome.REJECTED, error="fromNode is no position of a node"
            )
            return None
        run_id = self._claimed.run.run_id
        with self._services.readers.reading() as reading:
            page = run_history.page(reading, run_id, self._definition, from_node)
        for reference in page.references:
            self._contents.offer(reference)
        result: JsonObject = {"steps": page.steps, "next": page.following}
        await channel.reply(message, WorkerMessageOutcome.ACCEPTED, result=result)
        return None

    async def _process(self, channel: RunnerChannel, message: RunnerMessage) -> RunnerEnd | None:
        """Take a process outside the runner's session into care, or out of it."""
        assert self._runner is not None
        try:
            if message.operation == "process.unregister":
                self.processes.unregister(message.payload)
            else:
                sent = trio.current_time()
                await self.processes.register(self._runner, channel.worker_epoch, message.payload)
                self._tenure.extended(sent)
        except ClaimLostError:
            return await self._claim_lost(channel, message)
        except ProcessRefused as refused:
            await channel.reply(message, WorkerMessageOutcome.REJECTED, error=str(refused))
        else:
            await channel.reply(message, WorkerMessageOutcome.ACCEPTED)
        return None

    async def _write(self, channel: RunnerChannel, message: RunnerMessage) -> None:
        await self._transfer(channel, message, self._contents.write)

    async def _read(self, channel: RunnerChannel, message: RunnerMessage) -> None:
        await self._transfer(channel, message, self._contents.read)

    async def _transfer(
        self,
        channel: RunnerChannel,
        message: RunnerMessage,
        part: Callable[[JsonObject], Awaitable[JsonObject]],
    ) -> None:
        """Answer one part of a large body."""
        try:
            result = await part(message.payload)
        except ContentInvalid as error:
            await channel.reply(message, WorkerMessageOutcome.REJECTED, error=str(error))
        else:
            await channel.reply(message, WorkerMessageOutcome.ACCEPTED, result=result)

    async def _exiting(self, channel: RunnerChannel, message: RunnerMessage) -> RunnerEnd:
        reason = str(message.payload.get("reason"))[:_REASON_CHARS]
        await channel.reply(message, WorkerMessageOutcome.ACCEPTED)
        self.said_goodbye = True
        end = _FAREWELLS.get(reason, RunnerEnd.PROTOCOL)
        if end in {RunnerEnd.REFUSED, RunnerEnd.PROTOCOL}:
            # Stored with the run and shown there. What user code says is not for the log.
            self._note_words(message)
            self._log.warning("runner_gave_up", reason=reason)
        claims_too_much = (end is RunnerEnd.FINISHED and not self._ended) or (
            end is RunnerEnd.PARKED and not self._parked
        )
        return RunnerEnd.PROTOCOL if claims_too_much else end

    async def _hear_farewell(self, channel: RunnerChannel) -> None:
        """Answer the goodbye of a child that is about to end, or hear that it has."""
        with trio.move_on_after(FAREWELL_S):
            farewell = await channel.receive()
            if farewell is not None:
                self.said_goodbye = farewell.operation == "runner.exiting"
                await channel.reply(farewell, WorkerMessageOutcome.ACCEPTED)

    def _note_words(self, message: RunnerMessage) -> None:
        detail = message.payload.get("detail")
        if isinstance(detail, str) and detail:
            self.last_words = detail[:_WORDS_CHARS]

    async def _claim_lost(self, channel: RunnerChannel, message: RunnerMessage) -> RunnerEnd:
        await channel.reply(message, WorkerMessageOutcome.CLAIM_LOST)
        return RunnerEnd.CLAIM_LOST
