"""The server's side of one runner template: ask it to fork, and to reap."""

import array
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Generator
from typing import Final, final

import trio

from pi_workflows.protocol.frames import FrameDecoder, FrameError, FrameTooLarge
from pi_workflows.protocol.template import (
    MARKER_VARIABLE,
    Answer,
    Fork,
    Forked,
    Ready,
    Reap,
    Reaped,
    Refused,
    encode_request,
    parse_answer,
)
from runtime.errors import SpawnFailed
from runtime.identity import ProcessIdentity, identity_of
from runtime.output_tail import OutputTail
from runtime.process import UNKNOWN_EXIT, ChildSpec, ExitStatus
from runtime.session_child import SessionChild
from runtime.template_program import MARKER_BYTES

READY_S: Final = 15.0
"""How long a template may take to be warm; it takes a third of a second."""

ANSWER_S: Final = 10.0
"""How long it may take to answer; it takes milliseconds."""

LEAVE_S: Final = 1.0
"""How long it may take to end when its server is done with it."""

_RECEIVE_BYTES: Final = 65_536
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(4 * array.array("i").itemsize)


class TemplateLost(Exception):
    """The template is gone, hangs, or talks nonsense; nobody can tell what it last did.

    A child that it has forked and not told of ends by itself: nobody holds its other end.
    """


class NotForkable(Exception):
    """Only an exec can start this child."""


@final
class TemplateLink:
    """One conversation, a request at a time.

    A request that was sent is answered or the template is lost: cancellation waits for that.
    """

    def __init__(self, child: SessionChild) -> None:
        """Talk to the template that `child` is."""
        self.child: Final = child
        self._socket: Final = child.stream.socket
        self._turn: Final = trio.Lock()
        self._decoder: Final = FrameDecoder()
        self._lines: Final[deque[bytes]] = deque()
        self._descriptors: Final[deque[int]] = deque()
        self._modules: frozenset[str] | None = None
        self.is_lost = False

    async def modules(self) -> frozenset[str]:
        """Wait until the template is warm; return the entry modules it can run.

        Cancelled: it goes on warming up, and can be waited for again.

        Raises:
            TemplateLost: it ended, or was not warm within 15 seconds.
        """
        async with self._turn:
            if self._modules is None:
                self._modules = await self._ready()
            return self._modules

    async def fork(self, spec: ChildSpec) -> SessionChild:
        """Have it fork a child for `spec`, which names a module of its own.

        Raises:
            SpawnFailed: there are no descriptors, or it could not; nothing is left behind.
            NotForkable: it takes an exec; nothing was asked.
            TemplateLost: see there.
        """
        assert spec.module is not None
        if len(spec.marker.encode()) > MARKER_BYTES:
            raise NotForkable(f"a marker of more than {MARKER_BYTES} bytes")
        env = {**spec.env, MARKER_VARIABLE: spec.marker}
        try:
            request = encode_request(Fork(spec.module, spec.cwd, env, spec.marker))
        except FrameTooLarge as error:
            raise NotForkable("an environment of more than 1 MiB") from error
        async with self._turn:
            with trio.CancelScope(shield=True):
                child = await self._fork(request, spec)
        return child

    async def reap(self, pid: int) -> ExitStatus:
        """Have it reap a child that has exited.

        Returns:
            How it ended; unknown when the template is gone: then the system has reaped it.
        """
        try:
            async with self._turn:
                with trio.CancelScope(shield=True):
                    answer = await self._ask(encode_request(Reap(pid)))
        except TemplateLost:
            return UNKNOWN_EXIT
        if not isinstance(answer, Reaped):
            return UNKNOWN_EXIT
        return ExitStatus(answer.code, answer.signal)

    async def leave(self) -> None:
        """Close our end and wait, at most a second, until it has ended what waits with it."""
        await self.child.stream.aclose()
        with trio.move_on_after(LEAVE_S):
            await self.child.wait()

    def close(self) -> None:
        """Close descriptors that came and were not asked for."""
        while self._descriptors:
            os.close(self._descriptors.popleft())

    async def _ready(self) -> frozenset[str]:
        with self._losing_it():
            with trio.fail_after(READY_S):
                answer = await self._answer()
            if isinstance(answer, Ready):
                return answer.modules
            raise FrameError("the template was not ready")

    async def _fork(self, request: bytes, spec: ChildSpec) -> SessionChild:
        with contextlib.ExitStack() as undo:
            try:
                ours, theirs = socket.socketpair()
                undo.callback(ours.close)
                undo.callback(theirs.close)
                output_read, output_write = os.pipe()
            except OSError as error:
                raise SpawnFailed(f"no descriptors for a child: {error.strerror}") from error
            output = OutputTail(output_read, spec.output_bytes_max)
            undo.callback(output.close)
            try:
                answer = await self._ask(request, (theirs.fileno(), output_write))
            finally:
                os.close(output_write)
            theirs.close()
            if isinstance(answer, Refused):
                raise SpawnFailed(f"cannot start {spec.module}: {answer.reason}")
            with self._losing_it():
                leader = await self._leader(answer)
            undo.pop_all()
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        return SessionChild(leader, spec.marker, stream, output)

    async def _leader(self, answer: Answer) -> "_ForkedLeader":
        """Watch a child that the template has just forked, or end it again.

        Raises:
            SpawnFailed: no descriptor was left for the pidfd that came with the answer.
            ProcessLookupError: the template has ended, and the child too.
            FrameError: the answer was to another question.
        """
        if not isinstance(answer, Forked):
            raise FrameError("the template answered with something else")
        pid = answer.pid
        if not self._descriptors:
            # The template is its parent and does not reap it unasked: the number is still its own.
            os.kill(pid, signal.SIGKILL)
            await self._ask(encode_request(Reap(pid)))
            raise SpawnFailed("no descriptor is left to watch a child by")
        pidfd = self._descriptors.popleft()
        try:
            return _ForkedLeader(self, pid, pidfd)
        except BaseException:
            os.close(pidfd)
            raise

    async def _ask(self, request: bytes, descriptors: tuple[int, ...] = ()) -> Answer:
        if self.is_lost:
            raise TemplateLost("it is lost")
        with self._losing_it(), trio.fail_after(ANSWER_S):
            await self._send(request, descriptors)
            return await self._answer()

    async def _send(self, request: bytes, descriptors: tuple[int, ...]) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        sent = await self._socket.sendmsg([request], [rights] if descriptors else [])
        while sent < len(request):
            sent += await self._socket.send(request[sent:])

    async def _answer(self) -> Answer:
        while not self._lines:
            data, ancillary, _, _ = await self._socket.recvmsg(_RECEIVE_BYTES, _ANCILLARY_BYTES)
            for _, _, rights in ancillary:
                descriptors = array.array("i")
                descriptors.frombytes(rights[: len(rights) - len(rights) % descriptors.itemsize])
                self._descriptors.extend(descriptors)
            if not data:
                raise FrameError("the template has ended")
            self._lines.extend(self._decoder.feed(data))
        return parse_answer(self._lines.popleft())

    @contextlib.contextmanager
    def _losing_it(self) -> Generator[None]:
        try:
            yield
        except (OSError, FrameError, trio.TooSlowError, trio.ClosedResourceError) as error:
            self.is_lost = True
            raise TemplateLost(str(error) or "it does not answer") from error


@final
class _ForkedLeader:
    """A child of the template's."""

    def __init__(self, template: TemplateLink, pid: int, pidfd: int) -> None:
        """Watch it by `pidfd`, which is owned from now on.

        Raises:
            ProcessLookupError: the number was not its own any more.
        """
        identity = identity_of(pid)
        # Asked last: as long as it is not reaped, nobody else has had its number.
        signal.pidfd_send_signal(pidfd, 0)
        if identity is None:
            raise ProcessLookupError(f"process {pid} has no readable identity")
        self.identity: Final[ProcessIdentity] = identity
        self._template: Final = template
        self._pidfd: Final = pidfd

    def signal_group(self, sig: signal.Signals) -> None:
        """Signal its group, or itself in its first moments, when it leads none and is alone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # A dead template's children are reaped by the system, as soon as they end.
            signal.pidfd_send_signal(self._pidfd, 0)
            try:
                os.killpg(self.identity.pid, sig)
            except ProcessLookupError:
                signal.pidfd_send_signal(self._pidfd, sig)

    async def exited(self) -> None:
        """Wait for the exit."""
        await trio.lowlevel.wait_readable(self._pidfd)

    async def reap(self) -> ExitStatus:
        """Have the template reap it; unknown when that is gone."""
        return await self._template.reap(self.identity.pid)

    def close(self) -> None:
        """Close the pidfd."""
        os.close(self._pidfd)
