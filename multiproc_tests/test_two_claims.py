"""Two processes want the same run at the same instant."""

import select
import subprocess
import sys
from pathlib import Path
from typing import IO, Final

import pytest

from multiproc_tests.harness import claimer
from multiproc_tests.harness.processes import BOUND_S
from multiproc_tests.harness.servers import ROOT
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import ActorType
from runtime.world import SystemIdSource
from store.authority import Permit
from store.batch import Batch, run_alone
from store.blobs import Blob
from store.creation import create_database
from store.opening import open_reader, open_writer
from store.resources import Actor
from store.run_creation import NewRun, create_run
from store.state_dir import prepare_state_dir
from store.transaction import Reading
from store.verification import violations

RACES: Final = 30
NOW: Final = 1_700_000_000_000
GRAPH: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "alone",
    "startAt": "only",
    "maxSteps": 5,
    "nodes": [{"id": "only", "type": "compute"}],
    "edges": [],
    "mounts": [],
    "settings": None,
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A file with as many queued runs as there are races."""
    path = tmp_path / "workflows" / "state.sqlite"
    prepare_state_dir(path.parent)
    create_database(path, now=NOW)
    writer = open_writer(path)
    batch = Batch(writer, SystemIdSource(), lambda: NOW)
    permit = Permit(Actor(ActorType.CONTROL))
    for number in range(RACES):
        new = NewRun(
            run_id=RunId(f"run-{number}"),
            workflow_name="alone",
            workflow_ref="alone",
            project_path="/projects/one",
            source=SourceIdentity(SourceKind.FILE, "/projects/one/alone.workflow.py", "ab" * 32),
            snapshot=Blob.of_json(GRAPH),
            run_input=Blob.of_json(None),
            launch_options=Blob.of_json({}),
            title=None,
            origin_session_id=None,
        )
        run_alone(batch, lambda tx, new=new: create_run(tx, permit, new))  # type: ignore[misc]
    writer.close()
    return path


def start(database: Path, owner: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", str(claimer.__file__), str(database), owner],
        env={"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def line_of(stream: "IO[str] | None") -> str:
    assert stream is not None
    assert select.select([stream], [], [], BOUND_S)[0], "no answer"
    return stream.readline().strip()


def test_of_two_processes_that_claim_a_run_at_once_one_wins(database: Path) -> None:
    """The loser is told that somebody owns it, and the rows show one claim and one event of it.

    Case: A30.
    """
    claimers = [start(database, owner) for owner in ("server-1", "server-2")]
    try:
        assert [line_of(process.stdout) for process in claimers] == ["ready", "ready"]
        for number in range(RACES):
            # Each is first in the queue half of the time.
            for process in claimers[:: 1 if number % 2 else -1]:
                assert process.stdin is not None
                process.stdin.write(f"run-{number}\n")
                process.stdin.flush()
            answers = sorted(line_of(process.stdout) for process in claimers)
            assert answers == ["LEASE_HELD", "won"]
    finally:
        for process in claimers:
            process.communicate(timeout=BOUND_S)
    assert [process.returncode for process in claimers] == [0, 0]
    reader = open_reader(database)
    generations = reader.connection.execute(
        "SELECT generation FROM leases JOIN runs USING (resource_id)"
    ).fetchall()
    claims = reader.connection.execute(
        "SELECT count(*) FROM events WHERE event_type = 'lease.claimed'"
    ).get
    assert generations == [(1,)] * RACES
    assert claims == RACES
    assert violations(Reading(reader.connection, NOW)) == []
    reader.close()
