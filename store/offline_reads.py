"""Reads that scan the whole database, in a process of their own with a READONLY connection.

The server starts it (README 9): its loop must not stand still, and its readers never wait. One
question per process, answered by one frame on the given descriptor:
`{"answer": {…}}`, or `{"error": {"code", "message"}}` when the file cannot be read.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import encode_frame
from store.errors import StoreError
from store.files import OsFiles
from store.opening import MAINTENANCE_BUSY_MS, open_reader
from store.state_status import state_status
from store.transaction import Reading
from store.verification import verify
from store.wal import wal_bytes

STATUS: Final = "status"
VERIFY: Final = "verify"


def answer(question: str, database: Path, now: int) -> JsonObject:
    """Return the answer frame to `STATUS` or `VERIFY`; `now` is UTC epoch ms."""
    try:
        reader = open_reader(database, busy_timeout_ms=MAINTENANCE_BUSY_MS)
        try:
            with reader.snapshot() as connection:
                return {"answer": _read(question, Reading(connection, now), database)}
        finally:
            reader.close()
    except StoreError as error:
        return {"error": {"code": str(error.code), "message": str(error)}}


def _read(question: str, reading: Reading, database: Path) -> JsonObject:
    if question == VERIFY:
        return verify(reading)
    return state_status(reading, wal_bytes=wal_bytes(database, OsFiles()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Answer the question on the command line."""
    parser = argparse.ArgumentParser(description="Read a whole state database.")
    parser.add_argument("question", choices=(STATUS, VERIFY))
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--now", type=int, required=True, help="UTC, milliseconds")
    parser.add_argument("--fd", type=int, required=True, help="where the answer goes")
    asked = parser.parse_args(arguments)
    frame = encode_frame(answer(asked.question, asked.database, asked.now))
    with os.fdopen(asked.fd, "wb") as answers:
        answers.write(frame)


if __name__ == "__main__":
    main()
