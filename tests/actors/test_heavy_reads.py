"""Behaviour of the program that reads a whole database beside its server."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
import trio
import trio.testing

from actors.heavy_reads import HeavyReads, ReadFailed
from pi_workflows.protocol.frames import parse_canonical
from store.creation import create_database
from store.offline_reads import QUICK_CHECK, STATUS, VERIFY, answer, main, run_state

if TYPE_CHECKING:
    from tests.actors.conftest import Bench


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


async def test_read_that_the_log_cannot_wait_for_is_ended_and_says_so(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001 - the clock that jumps
    bench: "Bench",
) -> None:
    """Its snapshot holds up every checkpoint; a renewal would wait behind the one that comes."""
    bench.children(bench.hanging)
    heavy = HeavyReads(bench.services)
    refused: list[ReadFailed] = []

    async def verify() -> None:
        with pytest.raises(ReadFailed) as failed:
            await heavy.state_verify()
        refused.append(failed.value)

    def stopped() -> list[bool]:
        return [reader.was_stopped for reader in bench.spawner.spawned]

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(verify)
            await trio.testing.wait_all_tasks_blocked()
            assert stopped() == [False]
            bench.services.store.is_log_crowded.value = True
        assert stopped() == [True]
        await verify()
    assert [failed.code for failed in refused] == ["STATE_BUSY", "STATE_BUSY"]
    assert "ask again" in str(refused[0])


async def test_read_that_takes_too_long_is_ended_and_says_so(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001 - the clock that jumps
    bench: "Bench",
) -> None:
    bench.children(bench.hanging)
    with trio.fail_after(600), pytest.raises(ReadFailed, match="longer than 300 s"):
        await HeavyReads(bench.services).state_verify()
    assert bench.spawner.spawned[0].was_stopped
