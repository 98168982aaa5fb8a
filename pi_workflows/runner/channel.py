"""The child's end of the runner protocol: blocking frames, and a thread that watches.

User code owns the main thread (README 32). The main thread sends; the watching thread alone reads,
keeps the deadlines and obeys control frames. It promises:

- when the server is gone (end of stream) or the claim is lost, the process ends at once, its own
  shell groups and the rest of its session killed first, whatever user code is doing;
- a deadline cancels the code; code that has not returned after the grace is abandoned: the
  time-out is recorded from here and the process ends, so abandoned code never runs beside the
  next node;
- `{"control":"stop"}` and SIGTERM end the process within a bound, the current node unrecorded.
"""

import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn, cast

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameDecoder, FrameError, parse_canonical
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from pi_workflows.runner.cancellation import Cancellation, CancelReason
from pi_workflows.runner.entry import (
    EXIT_CHANNEL_LOST,
    EXIT_CLAIM_LOST,
    EXIT_CRASHED,
    EXIT_DONE,
)
from pi_workflows.runner.messages import Call, CallResult, ExitReason, Reply, Send
from pi_workflows.runner.own_session import kill_rest_of_session
from pi_workflows.runner.shell_groups import ShellGroups
from pi_workflows.runner.turn import Turn
from pi_workflows.runner.wire import Identity, exiting, message_frame, parse_reply

GRACE_MS: Final = 1_000
"""How long user code may go on after its deadline before it is abandoned."""

SHELL_GRACE_MS: Final = 3_000
"""The same for a node that runs a command: TERM, 1 s, KILL, up to 2 s for the receipt."""

_LAST_REPLY_S: Final = 10.0  # A server this slow has its own deadline for a stopped child.
_READ_BYTES: Final = 65_536
_POLL_MS_MAX: Final = 3_600_000
_WAKE: Final = b"\0"


class Stopped(Exception):
    """The server asked this child to end; the current node stays unrecorded."""


class Channel:
    """Frames over one stream socket; owned by the main thread, watched by a second one.

    Args:
        connection: this end of the socket pair; blocking.
        groups: killed before the process ends for whatever reason.
        grace_ms: replaces `GRACE_MS`; a shell node gets two seconds more.
    """

    def __init__(
        self, connection: socket.socket, groups: ShellGroups, *, grace_ms: int = GRACE_MS
    ) -> None:
        self._connection = connection
        self._groups = groups
        self._grace_ms = grace_ms
        self._identity: Identity | None = None
        self._sent = 0
        self._decoder = FrameDecoder()
        self._lines: list[bytes] = []
        self._replies: queue.SimpleQueue[tuple[str, Reply]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._turn: Turn | None = None
        self._stop_at: float | None = None
        self._planned_wake = 0.0
        self._forking = threading.local()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)

    def receive_first(self) -> JsonObject:
        """Read the frame that opens the conversation; call it before `start`.

        Raises:
            FrameError: the stream ended first or the frame is malformed.
        """
        while not self._lines:
            data = self._connection.recv(_READ_BYTES)
            if not data:
                raise FrameError("the stream ended before the first frame")
            self._lines += self._decoder.feed(data)
        return parse_canonical(self._lines.pop(0))

    def start(self, identity: Identity) -> None:
        """Begin to watch; from now on the process ends with the stream. Main thread only."""
        self._identity = identity
        signal.signal(signal.SIGTERM, self._on_sigterm)
        # The C-level handler writes the signal's number even while user code keeps the main
        # thread in one long call.
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        os.register_at_fork(
            before=self._hold_signals,
            after_in_parent=self._release_signals,
            after_in_child=self._let_go,
        )
        threading.Thread(target=self._watch, name="runner-channel", daemon=True).start()

    def request(self, message: Send) -> Reply:
        """Send one message and wait for its reply, however long the server takes.

        Raises:
            Stopped: the server asked to stop; the message was answered all the same.
        """
        message_id = self._transmit(message)
        answered, reply = self._replies.get()
        assert answered == message_id
        if self._stop_at is not None:
            raise Stopped
        return reply

    def run_turn(self, call: Call, work: Callable[[Cancellation], CallResult]) -> CallResult:
        """Run user code on this thread, under its deadline.

        Args:
            call: its budget and what is sent if it is abandoned.
            work: must not raise, and should return soon after the cancellation is set.

        Returns:
            What `work` returned, or `timed_out` (with its receipt) if it came back too late. Does
            not return at all if the code was abandoned: then the process ends.

        Raises:
            Stopped: the server asked to stop; the result is discarded.
        """
        extra_ms = 0 if call.node.shell is None else SHELL_GRACE_MS - GRACE_MS
        turn = Turn(
            started_at=time.monotonic(),
            timeout_ms=call.timeout_ms,
            grace_ms=self._grace_ms + extra_ms,
            abandon=call.abandon,
        )
        self._open(turn)
        result = work(turn.cancellation)
        if not turn.take_for_main(time.monotonic()):
            threading.Event().wait()  # The watching thread is ending this process.
        with self._lock:
            self._turn = None
            if self._stop_at is not None:
                raise Stopped
        if turn.cancellation.reason is CancelReason.DEADLINE:
            return CallResult(outcome=StepOutcome.TIMED_OUT, receipt=result.receipt)
        return result

    def leave(self, reason: ExitReason, detail: str | None = None) -> NoReturn:
        """Say why, wait a bounded time for the answer, and end the process with code 0."""
        with suppress(queue.Empty, OSError):
            self._transmit(exiting(reason, detail))
            self._replies.get(timeout=_LAST_REPLY_S)
        self.end(EXIT_DONE)

    def end(self, code: int) -> NoReturn:
        """End the process from any thread: no user code runs on the way, nothing of it stays."""
        self._groups.kill_all()
        kill_rest_of_session()
        if threading.current_thread() is threading.main_thread():
            # The watching thread must not wait for a buffer that stuck code may hold.
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
        os._exit(code)

    def _transmit(self, message: Send) -> str:
        assert self._identity is not None
        self._sent += 1
        message_id = f"m{self._sent}"
        self._connection.sendall(message_frame(self._identity, message_id, message))
        return message_id

    def _open(self, turn: Turn) -> None:
        with self._lock:
            if self._stop_at is not None:
                raise Stopped
            self._turn = turn
            wakes_at = turn.wakes_at
            too_late = wakes_at is not None and wakes_at < self._planned_wake
        if too_late:
            self._wake()

    def _wake(self, what: bytes = _WAKE) -> None:
        with suppress(BlockingIOError):  # A full pipe wakes just as well.
            os.write(self._wake_writer, what)

    def _hold_signals(self) -> None:
        """Keep SIGTERM from a forked child until it has left the wake-up pipe."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self._forking.held = signal.SIGTERM not in mask

    def _release_signals(self) -> None:
        if self._forking.held:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def _let_go(self) -> None:
        """Leave the pipe and the handler in a forked child: its SIGTERM is not the runner's."""
        signal.set_wakeup_fd(-1)
        if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        self._release_signals()

    def _on_sigterm(self, number: int, _frame: object) -> None:
        self._wake(bytes([number]))  # Also heard while trio has borrowed the wakeup descriptor.

    def _watch(self) -> NoReturn:
        code = EXIT_CRASHED
        try:
            self._take_lines()
            while True:
                self._wait_and_read(self._plan())
                self._keep_time(time.monotonic())
        except (OSError, FrameError) as lost:
            code = EXIT_CHANNEL_LOST
            sys.stderr.write(f"runner: the channel is lost: {lost}\n")
        except BaseException:  # noqa: BLE001 - an unwatched child must not live on
            sys.stderr.write(traceback.format_exc())
        finally:
            self.end(code)

    def _plan(self) -> float | None:
        """Return when to wake at the latest, in monotonic seconds."""
        with self._lock:
            times = [self._stop_at, self._turn.wakes_at if self._turn is not None else None]
            planned = min((at for at in times if at is not None), default=None)
            self._planned_wake = float("inf") if planned is None else planned
            return planned

    def _wait_and_read(self, until: float | None) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        wait_ms = None
        if until is not None:
            # poll counts whole milliseconds and rounds down: one more, or it would spin at the
            # end. It takes no more than 31 bits; waking early only plans again.
            left_ms = int((until - time.monotonic()) * 1000) + 1
            wait_ms = min(max(0, left_ms), _POLL_MS_MAX)
        ready = {descriptor for descriptor, _ in poll.poll(wait_ms)}
        woken = os.read(self._wake_reader, _READ_BYTES) if self._wake_reader in ready else b""
        if signal.SIGTERM in woken:
            self._begin_stop()
        if self._connection.fileno() in ready:
            data = self._connection.recv(_READ_BYTES)
            if not data:
                raise FrameError("the server closed the stream")
            self._lines += self._decoder.feed(data)
            self._take_lines()

    def _take_lines(self) -> None:
        while self._lines:
            frame = parse_canonical(self._lines.pop(0))
            if frame.get("control") == "stop":
                self._begin_stop()
            elif "messageId" in frame:
                reply = parse_reply(frame)
                if reply.outcome is WorkerMessageOutcome.CLAIM_LOST:
                    self.end(EXIT_CLAIM_LOST)
                self._replies.put((cast("str", frame["messageId"]), reply))

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
                if turn is not None and turn.take_for_watch():
                    self._exchange_here(exiting(ExitReason.STOPPED, "user code did not stop"))
                self.end(EXIT_DONE)
        elif turn is not None and turn.watch(now) and turn.take_for_watch():
            self._abandon(turn)

    def _abandon(self, turn: Turn) -> NoReturn:
        """Record the time-out in the place of code that does not return, and end the process."""
        reply = self._exchange_here(turn.abandon)
        if reply.outcome is WorkerMessageOutcome.REJECTED:
            self._exchange_here(exiting(ExitReason.FAILED, reply.error))
        else:
            self._exchange_here(exiting(ExitReason.ABANDONED_CODE, None))
        self.end(EXIT_DONE)

    def _exchange_here(self, message: Send) -> Reply:
        """Like `request`, on the watching thread, bounded."""
        self._transmit(message)
        until = time.monotonic() + _LAST_REPLY_S
        while self._replies.empty():
            if time.monotonic() >= until:
                raise FrameError("the server did not answer the last message")
            self._wait_and_read(until)
        return self._replies.get()[1]
