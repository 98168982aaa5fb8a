"""Behaviour of the program that reads a whole database beside its server."""

import os
from pathlib import Path

import apsw

from pi_workflows.protocol.frames import parse_canonical
from store.creation import create_database
from store.offline_reads import QUICK_CHECK, STATUS, VERIFY, answer, main, run_state


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


def test_state_that_is_too_large_is_refused_before_and_after_it_is_built(home: Path) -> None:
    database = home / "state.sqlite"
    create_database(database, now=1)
    unknown, nothing = run_state("run-1", database, 5)
    assert unknown["error"]["code"] == "RUN_UNKNOWN"  # type: ignore[index, call-overload]
    refused, none = run_state("run-1", database, 5, bytes_max=-1)
    assert refused["error"]["code"] == "RESULT_TOO_LARGE"  # type: ignore[index, call-overload]
    assert nothing == none == b""


def test_quick_check_tells_a_sound_file_from_a_damaged_one(home: Path) -> None:
    database = home / "state.sqlite"
    create_database(database, now=1)
    assert answer(QUICK_CHECK, database, 5) == {"answer": {"sound": True}}
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("INSERT INTO leases (resource_id, generation) VALUES ('nobody', 0)")
    connection.close()
    assert answer(QUICK_CHECK, database, 5) == {"answer": {"sound": False}}
