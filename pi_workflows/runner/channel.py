"""The child's end of the runner protocol: blocking exchanges, and a thread that watches.

User code owns the main thread (README 32), and the main thread itself sends and reads: an exchange
between two nodes wakes nobody else. The watching thread never reads. It sleeps until the stream
hangs up, the current deadline comes or the process is to stop. It promises:

- when the server is gone or the claim is lost, the process ends at once, its own shell groups and
  the rest of its session killed first, whatever user code is doing;
- a deadline cancels the code; code that has not returned after the grace is abandoned: the
  time-out is recorded from here and the process ends, so abandoned code never runs beside the
  next node;
- SIGTERM ends the process within a bound, the current node unrecorded.

Who speaks: an exchange is made under the connection's `word`, and so is the end of a turn.
Whoever holds it knows that no frame is half sent and whether a turn is open. User code may speak
while its turn is open, from any of its threads; once the watching thread has abandoned the turn
it keeps the word for ever.
"""

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameError
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from pi_workflows.runner.alarm import Alarm
from pi_workflows.runner.cancellation import Cancellation, CancelReason
from pi_workflows.runner.connection import ChannelLost, Connection
from pi_workflows.runner.entry import (
    EXIT_CHANNEL_LOST,
    EXIT_CLAIM_LOST,
    EXIT_CRASHED,
    EXIT_DONE,
    complain,
)
from pi_workflows.runner.messages import Call, CallResult, ExitReason, Reply, Send
from pi_workflows.runner.own_session import kill_rest_of_session
from pi_workflows.runner.shell_groups import ShellGroups
from pi_workflows.runner.turn import Turn
from pi_workflows.runner.wire import Identity, exiting, message_frame, parse_reply

GRACE_MS: Final = 1_000
"""How long user code may go on after its deadline before it is abandoned."""

SHELL_GRACE_MS: Final = 3_000
"""The same for code that runs a command: TERM, 1 s, KILL, up to 2 s for the receipt."""

_LAST_REPLY_S: Final = 10.0  # A server this slow has its own deadline for a stopped child.


class Stopped(Exception):
    """The server asked this child to end; the current node stays unrecorded."""


class TurnOver(Exception):
    """The code that wants to speak belongs to a node that has ended."""


class Channel:
    """Exchanges over one stream socket; a second thread watches.

    Args:
        connection: this end of the socket pair; blocking.
        groups: killed before the process ends for whatever reason.
        grace_ms: replaces `GRACE_MS`; code that runs a command gets two seconds more.
    """

    def __init__(
        self, connection: socket.socket, groups: ShellGroups, *, grace_ms: int = GRACE_MS
    ) -> None:
        self._connection = Connection(connection)
        self._alarm = Alarm(connection.fileno())
        self._groups = groups
        self._grace_ms = grace_ms
        self._identity: Identity | None = None
        self._sent = 0
        self._lock = threading.Lock()  # Guards the three below, never held while waiting.
        self._turn: Turn | None = None
        self._stop_at: float | None = None
        self._planned_wake = 0.0
        self._forking = threading.local()
        self._is_forked = False

    def receive_first(self) -> JsonObject:
        """Read the frame that opens the conversation; call it before `start`.

        Raises:
            OSError: the stream ended first or broke.
            FrameError: the frame is malformed.
        """
        return self._connection.receive_first()

    def start(self, identity: Identity) -> None:
        """Begin to watch; from now on the process ends with the stream. Main thread only."""
        self._identity = identity
        signal.signal(signal.SIGTERM, self._on_sigterm)
        # The C-level handler writes the signal's number even while user code keeps the main
        # thread in one long call.
        signal.set_wakeup_fd(self._alarm.writer, warn_on_full_buffer=False)
        os.register_at_fork(
            before=self._hold_signals,
            after_in_parent=self._release_signals,
            after_in_child=self._let_go,
        )
        threading.Thread(target=self._watch, name="runner-channel", daemon=True).start()

    def request(self, message: Send) -> Reply:
        """Send one message and wait for its reply, however long the server takes.

        For the main thread between two turns.

        Raises:
            Stopped: the server asked to stop; the message was answered all the same.
            OSError, FrameError: the channel is lost.
        """
        with self._connection.word:
            reply = self._exchange(message)
        if self._stop_at is not None:
            raise Stopped
        return reply

    def request_in_turn(self, message: Send) -> Reply:
        """Send one message for the user code that runs now; from any of its threads.

        It builds on no revision. What it makes of the run's revision is remembered for whatever
        is sent after the code, by the engine or in the place of abandoned code.

        Raises:
            TurnOver: the node has ended, or its code is not running yet; nothing was sent.
            Stopped: the server asked to stop; nothing was sent.
            OSError, FrameError: the channel is lost.
        """
        assert message.expected_revision is None
        with self._connection.word:
            turn = self._turn
            if self._stop_at is not None:
                raise Stopped
            if turn is None:
                raise TurnOver
            reply = self._exchange(message)
            if reply.revision is not None:
                turn.revision = reply.revision
            return reply

    def run_turn(self, call: Call, work: Callable[[Cancellation], CallResult]) -> CallResult:
        """Run user code on this thread, under its deadline.

        Args:
            call: its budget and what is sent if it is abandoned.
            work: must not raise, and should return soon after the cancellation is set.

        Returns:
            What `work` returned, or `timed_out` (with its receipt) if it came back too late, and
            the run's revision if the code has moved it. Does not return at all if the code was
            abandoned: then the process ends.

        Raises:
            Stopped: the server asked to stop; the result is discarded.
            OSError: the code has closed the channel, or this is a process that it has forked.
        """
        turn = Turn(
            started_at=time.monotonic(),
            timeout_ms=call.timeout_ms,
            grace_ms=partial(self._grace_of, call),
            abandon=call.abandon,
        )
        self._open(turn)
        result = work(turn.cancellation)
        with self._connection.word:  # For ever, if the watching thread is ending this process.
            self._connection.check_own()
            turn.close(time.monotonic())
            with self._lock:
                self._turn = None
        if self._stop_at is not None:
            raise Stopped
        if turn.cancellation.reason is CancelReason.DEADLINE:
            result = CallResult(outcome=StepOutcome.TIMED_OUT, receipt=result.receipt)
        return result if turn.revision is None else replace(result, revision=turn.revision)

    def _grace_of(self, call: Call) -> int:
        runs_command = call.node.shell is not None or self._groups.in_use
        return self._grace_ms + (SHELL_GRACE_MS - GRACE_MS if runs_command else 0)

    def leave(self, reason: ExitReason, detail: str | None = None) -> NoReturn:
        """Say why, wait a bounded time for the answer, and end the process with code 0."""
        with suppress(OSError, FrameError):
            self._connection.bound(_LAST_REPLY_S)
            with self._connection.word:
                self._exchange(exiting(reason, detail))
        self.end(EXIT_DONE)

    def end(self, code: int) -> NoReturn:
        """End the process from any thread: no user code runs on the way, nothing of it stays."""
        try:
            if not self._is_forked:
                self._groups.kill_all()
                kill_rest_of_session()
            if threading.current_thread() is threading.main_thread():
                # The watching thread must not wait for a buffer that stuck code may hold.
                with suppress(OSError, ValueError):
                    sys.stdout.flush()
                    sys.stderr.flush()
        finally:  # Without memory all of this may fail; the server ends the session then.
            os._exit(code)

    def _exchange(self, message: Send) -> Reply:
        """Send and wait, with the word held; a lost claim ends the process."""
        assert self._identity is not None
        self._sent += 1
        message_id = f"m{self._sent}"
        frame = message_frame(self._identity, message_id, message)
        reply = parse_reply(self._connection.exchange(message_id, frame))
        if reply.outcome is WorkerMessageOutcome.CLAIM_LOST:
            self.end(EXIT_CLAIM_LOST)
        return reply

    def _open(self, turn: Turn) -> None:
        with self._lock:
            if self._stop_at is not None:
                raise Stopped
            self._turn = turn
            wakes_at = turn.wakes_at
            too_late = wakes_at is not None and wakes_at < self._planned_wake
        if too_late:
            self._alarm.wake()

    def _hold_signals(self) -> None:
        """Keep SIGTERM from a forked child until it has left the wake-up pipe."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self._forking.held = signal.SIGTERM not in mask

    def _release_signals(self) -> None:
        if self._forking.held:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def _let_go(self) -> None:
        """In a forked child: leave pipe, handler and locks; its SIGTERM is not the runner's."""
        self._is_forked = True
        self._connection.let_go()
        self._lock = threading.Lock()
        signal.set_wakeup_fd(-1)
        if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._alarm.close()
        self._release_signals()

    def _on_sigterm(self, number: int, _frame: object) -> None:
        # Also heard while trio has borrowed the wakeup descriptor.
        self._alarm.wake(bytes([number]))

    def _watch(self) -> NoReturn:
        code = EXIT_CRASHED
        try:
            while True:
                if signal.SIGTERM in self._alarm.sleep(self._plan()):
                    self._begin_stop()
                self._keep_time(time.monotonic())
        except (OSError, FrameError) as lost:
            code = EXIT_CHANNEL_LOST
            complain(f"runner: the channel is lost: {lost}\n")
        except BaseException:  # noqa: BLE001 - an unwatched child must not live on
            complain(traceback.format_exc())
        finally:
            self.end(code)

    def _plan(self) -> float | None:
        """Return when to wake at the latest, in monotonic seconds.

        A turn that is opened meanwhile wakes the thread only if its deadline comes earlier.
        """
        with self._lock:
            times = [self._stop_at, self._turn.wakes_at if self._turn is not None else None]
            planned = min((at for at in times if at is not None), default=None)
            self._planned_wake = float("inf") if planned is None else planned
            return planned

    def _begin_stop(self) -> None:
        with self._lock:
            if self._stop_at is None:
                # A shell needs the grace between TERM and KILL; half of it more to collect it.
                self._stop_at = time.monotonic() + 1.5 * self._grace_ms / 1000
            turn = self._turn
        if turn is not None:
            turn.cancellation.cancel(CancelReason.STOP)

    def _keep_time(self, now: float) -> None:
        with self._lock:
            turn, stop_at = self._turn, self._stop_at
        if stop_at is not None:
            if now >= stop_at:
                self._end_stopped()
        elif turn is not None and turn.watch(now):
            self._abandon(turn)

    def _end_stopped(self) -> NoReturn:
        """End code that ignores the stop; whoever speaks for the process now goes unheard."""
        if self._connection.word.acquire(blocking=False) and self._turn is not None:
            self._connection.bound(_LAST_REPLY_S)
            self._exchange(exiting(ExitReason.STOPPED, "user code did not stop"))
        self.end(EXIT_DONE)

    def _abandon(self, turn: Turn) -> None:
        """Record the time-out in the place of code that does not return, and end the process.

        Returns only if the code has come back after all.
        """
        if not self._connection.word.acquire(timeout=_LAST_REPLY_S):
            raise ChannelLost("an exchange of user code does not end")
        if self._turn is not turn:
            self._connection.word.release()
            return
        self._connection.bound(_LAST_REPLY_S)
        revision = turn.abandon.expected_revision if turn.revision is None else turn.revision
        reply = self._exchange(replace(turn.abandon, expected_revision=revision))
        if reply.outcome is WorkerMessageOutcome.REJECTED:
            self._exchange(exiting(ExitReason.REJECTED, reply.error))
        else:
            self._exchange(exiting(ExitReason.ABANDONED_CODE, None))
        self.end(EXIT_DONE)
