"""Reads that are long, in a process of their own with a READONLY connection.

The server starts it (README 9): its loop must not stand still, and its readers never wait. One
question per process, answered by one frame on the given descriptor:
`{"answer": {…}}`, or `{"error": {"code", "message"}}` when there is no answer. The state of a run
follows its answer `{"bytes", "sha256"}` as that many bytes, because no frame could hold it.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, canonical_bytes, digest_hex
from pi_workflows.protocol.frames import encode_frame
from store import projection, projection_weight
from store.errors import StoreCorrupt, StoreError
from store.files import OsFiles
from store.opening import MAINTENANCE_BUSY_MS, open_reader
from store.quick_check import is_sound
from store.state_status import state_status
from store.transaction import Reading
from store.verification import verify
from store.wal import wal_bytes

STATUS: Final = "status"
VERIFY: Final = "verify"
QUICK_CHECK: Final = "quick-check"
RUN_STATE: Final = "run-state"

DOCUMENT_BYTES_MAX: Final = 512 * 1024 * 1024
"""Largest document that is handed out, and most bytes of bodies that one is made of."""

_TOO_LARGE: Final[JsonObject] = {
    "error": {
        "code": "RESULT_TOO_LARGE",
        "message": "the state of this run is larger than 512 MiB",
    }
}


def answer(question: str, database: Path, now: int) -> JsonObject:
    """Return the answer frame to a question about the whole file; `now` is UTC epoch ms."""
    try:
        reader = open_reader(database, busy_timeout_ms=MAINTENANCE_BUSY_MS)
        try:
            with reader.snapshot() as connection:
                return {"answer": _read(question, Reading(connection, now), database)}
        finally:
            reader.close()
    except StoreError as error:
        return _failure(error)


def run_state(
    run_id: str, database: Path, now: int, *, bytes_max: int = DOCUMENT_BYTES_MAX
) -> tuple[JsonObject, bytes]:
    """Return the answer frame and the canonical `pi-workflows.run-state.v1` of a run.

    The document is empty when the frame is an error.
    """
    try:
        reader = open_reader(database, busy_timeout_ms=MAINTENANCE_BUSY_MS)
        try:
            with reader.snapshot() as connection:
                reading = Reading(connection, now)
                if projection_weight.body_bytes(reading, run_id) > bytes_max:
                    return _TOO_LARGE, b""
                state = projection.run_state(reading, run_id)
        finally:
            reader.close()
    except StoreError as error:
        return _failure(error), b""
    document = canonical_bytes(state)
    if len(document) > bytes_max:
        return _TOO_LARGE, b""
    return {"answer": {"bytes": len(document), "sha256": digest_hex(document)}}, document


def _failure(error: StoreError) -> JsonObject:
    return {"error": {"code": str(error.code), "message": str(error)}}


def _read(question: str, reading: Reading, database: Path) -> JsonObject:
    if question == VERIFY:
        return verify(reading)
    if question == QUICK_CHECK:
        return {"sound": _is_sound(reading)}
    return state_status(reading, wal_bytes=wal_bytes(database, OsFiles()))


def _is_sound(reading: Reading) -> bool:
    try:
        return is_sound(reading)
    except StoreCorrupt:
        return False


def main(arguments: Sequence[str] | None = None) -> None:
    """Answer the question on the command line."""
    parser = argparse.ArgumentParser(description="Read a whole state database.")
    parser.add_argument("question", choices=(STATUS, VERIFY, QUICK_CHECK, RUN_STATE))
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--now", type=int, required=True, help="UTC, milliseconds")
    parser.add_argument("--run-id", default="", help="whose state")
    parser.add_argument("--fd", type=int, required=True, help="where the answer goes")
    asked = parser.parse_args(arguments)
    document = b""
    if asked.question == RUN_STATE:
        found, document = run_state(asked.run_id, asked.database, asked.now)
    else:
        found = answer(asked.question, asked.database, asked.now)
    with os.fdopen(asked.fd, "wb") as answers:
        answers.write(encode_frame(found))
        answers.write(document)


if __name__ == "__main__":
    main()
