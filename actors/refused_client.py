"""A connection beyond a quota: greeted, told at its first request why it is not served, closed."""

from typing import Final

import trio

from actors.client_replies import hello_of, response_to
from actors.client_requests import parse_request
from actors.services import Services
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FrameError, encode_frame, parse_canonical
from pi_workflows.protocol.states import CommandOutcome
from runtime.line_stream import LineStream
from store.receipts import Reply

REFUSE_S: Final = 2.0
"""How long it may take to ask, be answered and leave."""

_ASKED_BYTES_MAX: Final = 65_536


async def refuse_client(services: Services, stream: trio.abc.Stream, reason: str) -> None:
    """Answer one request with `unavailable` and the reason; bounded, and closed in any case."""
    lines = LineStream(stream)
    refused = Reply(
        CommandOutcome.UNAVAILABLE,
        receipt={"code": ErrorCode.LIMIT_REACHED.value},
        error=reason,
    )
    try:
        with trio.move_on_after(REFUSE_S):
            await lines.send(encode_frame(hello_of(services.world.ids.new_uuid())))
            line = await lines.receive()
            if line is not None and len(line) <= _ASKED_BYTES_MAX:
                request = parse_request(parse_canonical(line))
                await lines.send(encode_frame(response_to(request, refused)))
    except (FrameError, trio.BrokenResourceError, trio.ClosedResourceError):
        return
    finally:
        with trio.CancelScope(shield=True, deadline=0):
            await lines.aclose()
