"""What counts as a request, judged twice: by the server, and by the means of a fuzzer."""

from hypothesis import HealthCheck, example, given, settings

from actors.client_requests import parse_request
from multiproc_tests.harness.hostile_frames import HOSTILE, request_id_of
from pi_workflows.protocol.frames import FrameError, parse_canonical


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(HOSTILE)
@example(
    b'{"clientId":"c","idempotencyKey":"k","operation":"o","payload":{"n":-26174675979013240},'
    b'"requestId":"r","schema":"pi-workflows.client.v1","type":"request"}\n'
)
@example(
    b'{"clientId":"c","idempotencyKey":"k","operation":"o","payload":{"n":9007199254740993},'
    b'"requestId":"r","schema":"pi-workflows.client.v1","type":"request"}\n'
)
def test_line_is_taken_for_a_request_exactly_when_it_is_one(line: bytes) -> None:
    """The standard library and the `rfc8785` package know nothing of our parser.

    Case: C14, C16.
    """
    for part in line.split(b"\n")[:-1]:
        try:
            found: str | None = parse_request(parse_canonical(part)).request_id
        except FrameError:
            found = None
        assert found == request_id_of(part + b"\n")
