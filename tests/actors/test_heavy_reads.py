"""Behaviour of the program that reads a whole database beside its server."""

import os
from pathlib import Path

from pi_workflows.protocol.frames import parse_canonical
from store.creation import create_database
from store.offline_reads import STATUS, VERIFY, answer, main


def test_sound_database_is_verified_and_not_changed(home: Path) -> None:
    """One frame on the given descriptor, which is closed after it."""
    database = home / "state.sqlite"
    create_database(database, now=1)
    before = database.read_bytes()
    ours, theirs = os.pipe()
    arguments = [VERIFY, "--database", str(database), "--now", "5", "--fd", str(theirs)]
    main(arguments)
    with os.fdopen(ours, "rb") as answers:
        frame = parse_canonical(answers.read().removesuffix(b"\n"))
    found = frame["answer"]
    assert isinstance(found, dict)
    assert (found["ok"], found["violations"]) == (True, [])
    assert database.read_bytes() == before


def test_file_that_cannot_be_read_is_named_by_its_code(home: Path) -> None:
    missing = answer(STATUS, home / "state.sqlite", 5)
    assert missing["error"]["code"] == "STATE_MISSING"  # type: ignore[index, call-overload]
    (home / "state.sqlite").write_bytes(b"")
    empty = answer(VERIFY, home / "state.sqlite", 5)
    assert empty["error"]["code"] == "STATE_INCOMPATIBLE"  # type: ignore[index, call-overload]
