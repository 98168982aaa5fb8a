"""A runner child as a coroutine: the engine loop of the real one, under virtual time.

What is real: the engine, the executor, the author's functions, the frames. What is simulated: the
process, its clock, and how long user code takes; that is drawn from the seed. The protocol's
side of it keeps the promises of `pi_workflows.runner.channel`: at the end of the stream or of the
claim the process ends at once, an ignored deadline is recorded and ends it, SIGTERM ends it
within its grace.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, TypeAlias, final

import trio

from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.definition import WORKFLOW_SUFFIX
from pi_workflows.authoring.errors import AuthoringError
from pi_workflows.chaos.guarded import guarded
from pi_workflows.chaos.journal import Journal
from pi_workflows.chaos.outside import OUTSIDE, Outside
from pi_workflows.chaos.simulated_sources import SimulatedSources
from pi_workflows.protocol.frames import FrameError, parse_canonical
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from pi_workflows.runner.cancellation import Cancellation, CancelReason
from pi_workflows.runner.channel import GRACE_MS, Stopped
from pi_workflows.runner.engine import Engine
from pi_workflows.runner.entry import EXIT_CHANNEL_LOST, EXIT_CLAIM_LOST, EXIT_DONE
from pi_workflows.runner.launch import (
    SOURCE_CHANGED,
    Launch,
    LaunchError,
    SourceChanged,
    describe_load_error,
    load_verified,
    parse_launch,
)
from pi_workflows.runner.messages import (
    Call,
    CallResult,
    Ending,
    ExitReason,
    Purpose,
    Reply,
    Send,
    bounded_text,
)
from pi_workflows.runner.nodes.executor import Executor
from pi_workflows.runner.shell_groups import ShellGroups
from pi_workflows.runner.wire import Identity, exiting, message_frame, parse_reply
from runtime.chaos.guard import Guard
from runtime.chaos.outcome import ScenarioRefused
from runtime.line_stream import LineStream
from runtime.process import ChildSpec, ExitStatus
from runtime.simulation.chance import SeededIds
from runtime.simulation.machine import Machine, SimulationBroken
from runtime.simulation.processes import ProcessDied, SimulatedProcess
from runtime.simulation.spawner import ChildProgram
from runtime.simulation.streams import SimulatedStream

_LAST_REPLY_S: Final = 10.0

_NESTED: Final = "Attempted to call run() from inside a run()"
"""What trio says when the executor would open a loop inside this one."""


StandIns: TypeAlias = dict[tuple[str, str], Callable[[Ctx[Any]], Any]]
"""Plain functions that play nodes, by the names of workflow and node."""

SpeaksAs: TypeAlias = Callable[[Identity], Identity]


def as_itself(identity: Identity) -> Identity:
    """Let a runner speak for nobody else."""
    return identity


@dataclass(frozen=True, slots=True)
class Workplace:
    """What the runners of a simulation share.

    Attributes:
        work_s: how long a piece of user code takes; given a number in [0, 1) drawn for it.
        outside: where effects land.
        guard: up while user code runs.
        at_place: told wherever a runner comes by; may end it.
        speaks_as: for whom a runner says that its next message speaks, given who it is.
    """

    machine: Machine
    sources: SimulatedSources
    journal: Journal
    work_s: Callable[[Call, float], float]
    outside: Outside
    guard: Guard
    at_place: Callable[[SimulatedProcess, str], None]
    stand_ins: StandIns = field(default_factory=dict)
    speaks_as: SpeaksAs = as_itself


@final
class SimulatedRunner:
    """One runner child, from its launch envelope to its exit code."""

    def __init__(
        self, workplace: Workplace, process: SimulatedProcess, stream: SimulatedStream
    ) -> None:
        self._workplace: Final = workplace
        self._process: Final = process
        self._lines: Final = LineStream(stream)
        self._chance: Final = workplace.machine.chance.stream(f"work of {process.identity}")
        self._ids: Final = SeededIds(workplace.machine.chance.stream(f"ids of {process.identity}"))
        self._replies, self._answered = trio.open_memory_channel[Reply](1)
        self._launch: Launch | None = None
        self._workflow = ""
        self._executor: Executor | None = None
        self._sent = 0
        self._turn = trio.CancelScope()
        self._stop_at: float | None = None
        self._spoken: list[Send] = []

    def attempt_id(self) -> str:
        """Return the next attempt id of this child; see `messages.Origin`."""
        return f"attempt-{self._ids.new_uuid()}"

    def now_ms(self) -> int:
        """Return the machine's wall time; see `messages.Origin`."""
        return self._workplace.machine.clock.wall_ms()

    async def run(self) -> int:
        """Run until the exit; return its code."""
        OUTSIDE.set(self._workplace.outside)
        try:
            line = await self._lines.receive()
            if line is None:
                return EXIT_CHANNEL_LOST
            self._launch = parse_launch(parse_canonical(line))
        except (FrameError, LaunchError, trio.BrokenResourceError):
            return EXIT_CHANNEL_LOST
        self._process.handlers[signal.SIGTERM] = self._begin_stop
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            try:
                ending = await self._work(self._launch)
            except Stopped:
                ending = Ending(ExitReason.STOPPED)
            await self._leave(ending.reason, ending.detail)
        raise AssertionError

    async def _work(self, launch: Launch) -> Ending:
        try:
            definition = load_verified(launch, self._workplace.sources)
        except SourceChanged as changed:
            detail = bounded_text(str(changed))
            reply = await self._request(
                Send("run.park", {"reason": SOURCE_CHANGED, "detail": detail}, None)
            )
            if reply.outcome is WorkerMessageOutcome.REJECTED:
                return Ending(ExitReason.FAILED, reply.error)
            return Ending(ExitReason.PARKED, detail)
        except AuthoringError as error:
            return Ending(ExitReason.FAILED, bounded_text(describe_load_error(error)))
        self._workflow = launch.root.path.name.removesuffix(WORKFLOW_SUFFIX)
        self._executor = Executor(
            definition,
            ShellGroups(),
            source_directory=launch.root.path.parent,
            speak=self._speak,
        )
        loop = Engine(definition, run_id=launch.identity.run_id, origin=self).run()
        try:
            step = next(loop)
            while True:
                step = loop.send(await self._answer(step))
        except StopIteration as end:
            ending: Ending = end.value
            return ending

    async def _answer(self, step: Send | Call) -> Reply | CallResult:
        if isinstance(step, Send):
            return await self._request(step)
        return await self._run_turn(step)

    async def _request(self, message: Send) -> Reply:
        """Send one message and wait for its reply, however long the server takes."""
        reply = await self._exchange(message)
        if self._is_stopping():
            raise Stopped
        return reply

    async def _exchange(self, message: Send) -> Reply:
        assert self._launch is not None
        self._sent += 1
        speaker = self._workplace.speaks_as(self._launch.identity)
        frame = message_frame(speaker, f"m{self._sent}", message)
        try:
            await self._lines.send(frame)
        except trio.BrokenResourceError:
            self._exit(EXIT_CHANNEL_LOST)
        self._come_by("message sent")
        reply = await self._answered.receive()
        self._come_by("message answered")
        return reply

    async def _watch(self) -> None:
        """Read what the server says; end the process with the stream or the claim."""
        try:
            while (line := await self._lines.receive()) is not None:
                frame = parse_canonical(line)
                if frame.get("control") == "stop":
                    self._begin_stop()
                elif "messageId" in frame:
                    reply = parse_reply(frame)
                    if reply.outcome is WorkerMessageOutcome.CLAIM_LOST:
                        self._exit(EXIT_CLAIM_LOST)
                    await self._replies.send(reply)
        except trio.BrokenResourceError:
            pass  # As at the end of the stream.
        self._exit(EXIT_CHANNEL_LOST)

    async def _run_turn(self, call: Call) -> CallResult:
        """Run user code under its deadline; code that ignores it ends the process."""
        self._process.check()  # A reply that a dead runner still finds starts nothing any more.
        if self._is_stopping():
            raise Stopped
        now = trio.current_time()
        deadline = float("inf") if call.timeout_ms is None else now + call.timeout_ms / 1000
        result: CallResult | None = None
        with trio.CancelScope(deadline=deadline + GRACE_MS / 1000) as self._turn:
            result = await self._run_code(call, deadline)
        if self._is_stopping():
            if result is None:
                await self._exchange(exiting(ExitReason.STOPPED, "user code did not stop"))
                self._exit(EXIT_DONE)
            raise Stopped
        if result is None:
            await self._abandon(call)
        is_late = trio.current_time() >= deadline
        revision = await self._send_spoken()
        if is_late:
            result = CallResult(outcome=StepOutcome.TIMED_OUT, receipt=result.receipt)
        return result if revision is None else replace(result, revision=revision)

    def _speak(self, message: Send) -> Reply:
        """Take what user code publishes; it is sent when the code has returned.

        Its loop is the simulation's own, so the code cannot wait for the answer.
        """
        self._spoken.append(message)
        return Reply(WorkerMessageOutcome.ACCEPTED)

    async def _send_spoken(self) -> int | None:
        """Send what the code has published; return the run's revision if that moved it."""
        spoken, self._spoken = self._spoken, []
        revision = None
        for message in spoken:
            revision = (await self._request(message)).revision or revision
        return revision

    async def _abandon(self, call: Call) -> NoReturn:
        reply = await self._exchange(call.abandon)
        if reply.outcome is WorkerMessageOutcome.REJECTED:
            await self._leave(ExitReason.FAILED, reply.error)
        await self._leave(ExitReason.ABANDONED_CODE, None)

    async def _run_code(self, call: Call, deadline: float) -> CallResult:
        """Let the time pass that the code takes, then run it; async code adds its own."""
        call = self._played(call)
        self._workplace.guard.take_in_file_of(call.node.fn)
        if call.node.shell is not None and call.purpose is Purpose.NODE:
            raise SimulationBroken(
                f'node "{call.node.node_id}" starts a real process: a simulation runs'
                " functions; let a stand-in play it"
            )
        self._workplace.journal.begin(self._process.name, call)
        self._come_by("code started")
        cancellation = Cancellation()
        work_s = self._workplace.work_s(call, self._chance.random())
        if call.node.is_async and call.purpose is Purpose.NODE:
            with trio.move_on_at(deadline):
                await trio.sleep(work_s)
                return self._execute(await self._awaited(call, cancellation), cancellation)
            return CallResult(outcome=StepOutcome.TIMED_OUT)
        await trio.sleep(work_s)
        if trio.current_time() >= deadline:
            cancellation.cancel(CancelReason.DEADLINE)
        return self._execute(call, cancellation)

    async def _awaited(self, call: Call, cancellation: Cancellation) -> Call:
        """Await async user code here; return a call that has its result at hand.

        The real executor would run it in a loop of its own, and there is one already.
        """
        assert self._executor is not None
        function = call.node.fn
        context = self._executor.context(call, cancellation)
        try:
            value = await guarded(self._workplace.guard, function(context))
        except ScenarioRefused:
            raise
        except Exception as error:  # noqa: BLE001 - described by the executor like any other
            failure = error

            def fail(_: object) -> object:
                raise failure

            return replace(call, node=replace(call.node, fn=fail, is_async=False))
        return replace(call, node=replace(call.node, fn=lambda _: value, is_async=False))

    def _execute(self, call: Call, cancellation: Cancellation) -> CallResult:
        assert self._executor is not None
        with self._workplace.guard:
            result = self._executor.run(call, cancellation)
        if self._workplace.guard.refusal is not None:
            raise self._workplace.guard.refusal
        self._come_by("code returned")
        if result.error is not None and _NESTED in result.error:
            raise SimulationBroken(
                f'node "{call.node.node_id}": a simulation awaits the function of a node, no'
                " other callback; make that one a plain function"
            )
        return result

    def _played(self, call: Call) -> Call:
        """Let a stand-in play the node of a call, if there is one."""
        key = (self._workflow, call.node.node_id)
        stand_in = self._workplace.stand_ins.get(key)
        if stand_in is None or call.purpose is not Purpose.NODE:
            return call
        return replace(call, node=replace(call.node, fn=stand_in, is_async=False, shell=None))

    def _come_by(self, place: str) -> None:
        """Tell where this runner is; it may die there."""
        self._workplace.at_place(self._process, place)
        self._process.check()

    def _is_stopping(self) -> bool:
        return self._stop_at is not None

    def _begin_stop(self) -> None:
        if self._stop_at is None:
            self._stop_at = trio.current_time() + 1.5 * GRACE_MS / 1000
            self._turn.deadline = min(self._turn.deadline, self._stop_at)

    async def _leave(self, reason: ExitReason, detail: str | None) -> NoReturn:
        """Say why, wait a bounded time for the answer, and exit."""
        with trio.move_on_after(_LAST_REPLY_S):
            await self._exchange(exiting(reason, detail))
        self._exit(EXIT_DONE)

    def _exit(self, code: int) -> NoReturn:
        """End the process here and now, whatever its other tasks are doing."""
        self._workplace.machine.processes.end(self._process, ExitStatus(code, None))
        raise ProcessDied


def runner_program(workplace: Workplace) -> ChildProgram:
    """Return what a spawned runner runs."""

    async def program(process: SimulatedProcess, stream: SimulatedStream, _: ChildSpec) -> int:
        return await SimulatedRunner(workplace, process, stream).run()

    return program
