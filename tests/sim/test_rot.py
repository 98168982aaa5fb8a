"""Rot of the database: what is told, what is left alone, and what nobody has to notice."""

from pathlib import Path

import apsw
import pytest

from actors.state_files import DiskStateFiles
from pi_workflows.chaos.playing import play, staged
from pi_workflows.chaos.rot import Rotting
from pi_workflows.chaos.scenarios.system_deaths import database_rots
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.chaos.swarm import Swarm
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.outcome import ScenarioRefused
from store.chaos.recovered import Recoverer
from store.chaos.rotting import PAGE_BYTES, as_found, tree_pages

SEEDS = 60
"""Within these each kind of rot hits something that somebody needs."""

DATABASE = "state.sqlite"
_LOG_HEAD, _FRAME = 32, 24 + PAGE_BYTES


def told_of(seed: int) -> set[str]:
    """Return which kinds of rot a start has told of, before somebody put a sound copy there."""
    played = play(database_rots, seed, Swarm(seed))
    if played.error is not None:
        raise played.error
    rotten, told, is_said = set[str](), set[str](), False
    for _, _, what, text in played.trace.entries:
        if what == "rot":
            rotten.add(text.partition(",")[0])
        elif what == "log":
            is_said = is_said or "is damaged" in text or "is incompatible" in text
        elif what == "restored" and is_said:
            told |= rotten
            rotten, is_said = set(), False
    return told


def test_rot_of_each_kind_is_told_and_with_a_sound_copy_everything_goes_on() -> None:
    """Every run ends, nothing that was acknowledged is missing, and nobody wrote meanwhile.

    Case: D2.
    """
    missing = {kind.value for kind in Rotting}
    for seed in range(SEEDS):
        missing -= told_of(seed)
        if not missing:
            return
    assert not missing


def test_rot_and_power_cuts_are_refused_together() -> None:
    @simulation()
    def both(s: Stage) -> None:
        s.source("tally", "")
        s.run("tally")
        s.faults(rot=1, power_cut=1)

    with pytest.raises(ScenarioRefused, match="asks for rot and for power cuts"):
        staged(both)


@pytest.fixture
def recoverer() -> Recoverer:
    return Recoverer("rot-test")


@pytest.fixture
def written(tmp_path: Path) -> dict[str, bytes]:
    """Content of a database that has a free page, with everything in the file itself."""
    database = tmp_path / DATABASE
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("CREATE TABLE gone (id INTEGER PRIMARY KEY, text TEXT)")
    for insert in ("INSERT INTO kept VALUES (?, ?)", "INSERT INTO gone VALUES (?, ?)"):
        for number in range(9):
            connection.execute(insert, (number, "x" * 2_000))
    connection.execute("DELETE FROM gone")
    connection.close()
    return {DATABASE: database.read_bytes()}


def free_leaf(database: bytes) -> int:
    """Return where the first leaf of the list of free pages begins."""
    trunk = int.from_bytes(database[32:36], "big")
    start = (trunk - 1) * PAGE_BYTES
    assert int.from_bytes(database[start + 4 : start + 8], "big")
    return (int.from_bytes(database[start + 8 : start + 12], "big") - 1) * PAGE_BYTES


def spoilt(database: bytes, at: int) -> dict[str, bytes]:
    return {DATABASE: database[:at] + b"\xff" * PAGE_BYTES + database[at + PAGE_BYTES :]}


def test_page_that_nobody_reads_makes_no_difference_and_any_other_does(
    written: dict[str, bytes], recoverer: Recoverer
) -> None:
    database = written[DATABASE]
    sound = as_found(recoverer, DATABASE, written)
    assert sound is not None
    free = free_leaf(database)
    assert as_found(recoverer, DATABASE, spoilt(database, free)) == sound
    assert free not in tree_pages(sound)
    for page in tree_pages(sound):
        assert as_found(recoverer, DATABASE, spoilt(database, page)) != sound
    assert as_found(recoverer, DATABASE, spoilt(database, 0)) is None
    recoverer.close()


def test_log_that_rots_is_read_up_to_there_like_one_that_was_cut_off(tmp_path: Path) -> None:
    """SQLite cannot tell these two; what is served is exactly an earlier commit."""
    paths = StatePaths(tmp_path)
    state = DiskStateFiles(paths)
    state.prepare()
    state.create(now=1)
    writer = state.open_writer()
    writer.keep_log()
    ends = []
    for epoch in (1, 2, 3):
        writer.connection.execute("UPDATE workflow_host_state SET epoch = ?", (epoch,))
        ends.append(writer.wal_frames)
    writer.close()
    log = paths.database.with_name(f"{DATABASE}-wal")
    content = bytearray(log.read_bytes())
    content[_LOG_HEAD + ends[1] * _FRAME - 1] ^= 0xFF
    log.write_bytes(content)
    again = state.open_writer()
    again.keep_log()
    assert again.connection.execute("SELECT epoch FROM workflow_host_state").get == 1
    again.close()
