"""The client of quick commands: one question, one answer, standard library only."""

import base64
import binascii
import hashlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from pi_workflows.client.channel import Channel
from pi_workflows.client.errors import ConnectionLost, ProtocolViolation
from pi_workflows.client.follow_up_calls import BlockingFollowUpCalls
from pi_workflows.client.messages import Request, Response
from pi_workflows.client.run_calls import BlockingRunCalls
from pi_workflows.client.sans_io import Reply, new_id, reply_of
from pi_workflows.client.settings_calls import BlockingSettingsCalls
from pi_workflows.protocol.canonical import CanonicalError, JsonObject, JsonValue, parse_json
from pi_workflows.protocol.states import CommandOutcome

REPLY_MS: Final = 120_000
"""Default bound of one answer; a start waits for the author's module to be imported."""

SENDINGS_MAX: Final = 3
"""How often one command is sent before its loss is reported."""

_STOPPING_PAUSE_MS: Final = 250
"""A server that answers `unavailable` is closing its socket; connecting at once would meet it."""


class BlockingClient(BlockingRunCalls, BlockingSettingsCalls, BlockingFollowUpCalls):
    """Sends requests one after the other and repeats those whose reply was lost.

    A repeat has a new request id and the same client id, key, operation and payload, so the server
    carries a command out once and the repeat adopts the first result.

    Args:
        open_channel: makes a connection; called again after a loss. One that starts the server on
            demand makes the client survive its end.
        sleep: waits so many seconds between two sendings.
    """

    def __init__(
        self, open_channel: Callable[[], Channel], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._open_channel = open_channel
        self._sleep = sleep
        self._channel: Channel | None = None
        self.client_id = new_id()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if any; a later call opens a new one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def call(
        self,
        operation: str,
        payload: JsonObject | None = None,
        *,
        run_id: str | None = None,
        expected_revision: int | None = None,
        idempotency_key: str | None = None,
        reply_ms: int | None = REPLY_MS,
    ) -> Reply:
        """Carry one operation out and return the server's yes.

        Args:
            operation: name of C §2, for example `run.start`.
            payload: None means `{}`.
            run_id: the run it is about, if any.
            expected_revision: refuse unless at this revision; None accepts any.
            idempotency_key: None makes a fresh one; give the earlier one to repeat a command.
            reply_ms: bound of each answer; None waits for ever.

        Raises:
            Refused: the server said no.
            RequestInvalid: the request exceeds 1 MiB, is not JSON or names what can be no run;
                nothing was sent.
            ConnectionLost: lost `SENDINGS_MAX` times; whether it was carried out is unknown.
            Unavailable: no server, no answer in time.
            VersionsDiffer: the server is of another package version.
            ProtocolViolation: the server broke the protocol.
        """
        key = idempotency_key or new_id()
        for sending in range(1, SENDINGS_MAX + 1):
            request = Request(
                request_id=new_id(),
                client_id=self.client_id,
                operation=operation,
                idempotency_key=key,
                payload=payload or {},
                run_id=run_id,
                expected_revision=expected_revision,
            )
            response = self._send(request, reply_ms, last=sending == SENDINGS_MAX)
            if response is not None:
                return reply_of(response, operation)
        raise AssertionError("the last sending answers or raises")

    def read_content(self, reference: JsonObject, run_id: str) -> bytes:
        """Read a stored value in pages and verify its length and SHA-256.

        Args:
            reference: `{path, bytes, sha256, mediaType}` as a view advertised it.
            run_id: the run whose view advertised it.

        Raises:
            ProtocolViolation: the pages do not add up to what was advertised.
            ClientError: as `call` does.
        """
        content = bytearray()
        while True:
            page = self.call(
                "view.content",
                {"path": reference.get("path"), "offset": len(content)},
                run_id=run_id,
            ).receipt
            content += _chunk(page)
            if page.get("complete") is True:
                break
            if page.get("nextOffset") != len(content):
                raise ProtocolViolation("content pages do not follow each other")
        if len(content) != reference.get("bytes") or hashlib.sha256(
            content
        ).hexdigest() != reference.get("sha256"):
            raise ProtocolViolation("content does not have its advertised length and SHA-256")
        return bytes(content)

    def run_state(self, run_id: str) -> JsonObject:
        """Return the whole `pi-workflows.run-state.v1` of a run, in pages if it is large.

        Raises:
            Refused: code `RUN_UNKNOWN` for an unknown run.
            ClientError: as `call` and `read_content` do.
        """
        receipt = self.call("run.status", run_id=run_id).receipt
        state: JsonValue = receipt.get("state")
        reference = receipt.get("content")
        if isinstance(reference, dict):
            try:
                state = parse_json(self.read_content(reference, run_id))
            except CanonicalError as error:
                raise ProtocolViolation("a run state is not JSON") from error
        if not isinstance(state, dict):
            raise ProtocolViolation("a run state is not an object")
        return state

    def _send(self, request: Request, reply_ms: int | None, *, last: bool) -> Response | None:
        """Send once; None means: lost or stopping, send again."""
        if self._channel is None:
            self._channel = self._open_channel()
        try:
            response = self._channel.exchange(request, reply_ms)
        except ConnectionLost:
            self.close()
            if last:
                raise
            return None
        except BaseException:
            self.close()
            raise
        if response.outcome is CommandOutcome.UNAVAILABLE and not last:
            self.close()
            self._sleep(_STOPPING_PAUSE_MS / 1000)
            return None
        return response


def _chunk(page: JsonObject) -> bytes:
    data = page.get("data")
    if not isinstance(data, str):
        raise ProtocolViolation("a content page has no data")
    try:
        chunk = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ProtocolViolation("a content page is not base64") from error
    if not chunk and page.get("complete") is not True:
        raise ProtocolViolation("a content page is empty")
    return chunk
