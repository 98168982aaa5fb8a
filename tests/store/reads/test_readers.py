"""Whoever reads, of a file that is being written or of one at rest, leaves it as it is."""

from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.chaos.read_paths import PATHS
from pi_workflows.protocol.ids import RunId
from store import offline_reads
from store.wal import wal_path

if TYPE_CHECKING:
    from tests.store.reads.conftest import ScriptedStore

ID: Final = RunId("live")
QUESTIONS: Final = (offline_reads.STATUS, offline_reads.VERIFY, offline_reads.QUICK_CHECK)


@pytest.fixture
def busy(scripted: "ScriptedStore") -> "ScriptedStore":
    """A store whose log is filled and whose writer has it open."""
    scripted.create("done").work()
    live = scripted.create("live").begin()
    live.step("count", 1)
    live.start("check")
    return scripted


def look(scripted: "ScriptedStore") -> tuple[int, bytes, int]:
    """What of the files can be seen from outside; opening the database would drop its locks."""
    path = scripted.state.path
    log = wal_path(path).read_bytes()
    assert log
    return path.stat().st_mtime_ns, log, scripted.writer.connection.total_changes()


@pytest.mark.parametrize("name", PATHS)
def test_reader_beside_the_writer_changes_no_row_and_no_byte(
    busy: "ScriptedStore", name: str
) -> None:
    """Case: A94."""
    before = look(busy)
    busy.read(lambda reading: PATHS[name](reading, ID))
    assert busy.reader.connection.total_changes() == 0
    assert look(busy) == before


@pytest.mark.parametrize("question", QUESTIONS)
def test_reading_child_changes_no_row_and_no_byte(busy: "ScriptedStore", question: str) -> None:
    """It comes and goes with a connection of its own, and leaves the log to the writer.

    Case: A94.
    """
    before = look(busy)
    assert "answer" in offline_reads.answer(question, busy.state.path, busy.now)
    state, document = offline_reads.run_state("live", busy.state.path, busy.now)
    assert "answer" in state
    assert document
    assert look(busy) == before


def test_reading_child_of_a_file_at_rest_changes_no_byte(busy: "ScriptedStore") -> None:
    """Also when it is the only one that has it open.

    Case: A94.
    """
    busy.close()
    before = busy.state.content()
    for question in QUESTIONS:
        assert "answer" in offline_reads.answer(question, busy.state.path, busy.now)
    after = busy.state.content()
    assert after["state.sqlite"] == before["state.sqlite"]
    assert not after.get("state.sqlite-wal")
    busy.open()
