"""A resume against everything: a kill at each point of it, another resume, a cancel."""

import json

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S
from multiproc_tests.harness.workflows import COMPUTING, OUTPUT, STEPS, three
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import Channel, open_channel
from runtime.sync_points import SyncPoint

DURABLE = {
    SyncPoint.COMMAND_BEFORE_BEGIN: False,
    SyncPoint.COMMAND_AFTER_BEGIN: False,
    SyncPoint.COMMAND_AFTER_COMMAND: False,
    SyncPoint.COMMAND_BEFORE_COMMIT: False,
    SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY: True,
    SyncPoint.COMMAND_AFTER_REPLY: True,
}
"""Points of a command, and whether it is durable there."""

QUEUE = "SELECT status FROM run_queue WHERE run_id = ?"
ASKED = "SELECT count(*) FROM events WHERE event_type = 'run.resume_requested'"


QUIET = """
import threading
from pathlib import Path

@wf.compute()
def second(ctx: Ctx) -> str:
    if Path("quiet").exists():
        threading.Event().wait()
    return meet("second", visit=ctx.visit)
"""
"""A second node that meets nobody once the test has asked for quiet, and never ends by itself."""


def park(home: Home, second: str = COMPUTING) -> str:
    """Leave a run parked behind its first step, its file restored and no server running."""
    killed = home.servers.start()
    run_id = home.run(three(second))
    home.meetings.arrive("second")
    killed.kill()
    home.write('\nnote("edited")\n' + three(second))
    server = home.servers.start()
    home.await_view(run_id, lambda view: "reason" in view["display"])
    server.stop()
    home.write(three(second))
    return run_id


@pytest.mark.parametrize("point", DURABLE)
def test_server_killed_anywhere_in_a_resume_and_the_repeat_moves_the_run_once(
    home: Home, point: SyncPoint
) -> None:
    """The client repeats by itself what it got no answer to, with the same key."""
    run_id = park(home)
    armed = home.servers.start_armed(point, die_at=1)
    stored: list[str] = []
    connected: list[None] = []

    def connect() -> Channel:
        if connected:
            armed.assert_died(point)
            stored.extend(row[0] for row in home.database.rows_after_a_crash(QUEUE, run_id))
            home.servers.start()
        connected.append(None)
        return open_channel(home.paths.socket)

    with BlockingClient(connect) as client:
        reply = client.call("run.resume", run_id=run_id, idempotency_key="resume")
        again = client.call("run.resume", run_id=run_id, idempotency_key="resume")
    assert stored == ["queued" if DURABLE[point] else "parked"]
    assert reply.receipt["verdict"] == again.receipt["verdict"] == "resumable"
    assert reply.receipt == again.receipt
    home.meetings.arrive("second").go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.database.column(ASKED) == [1]


def test_resumes_and_a_cancel_at_the_same_time_have_one_winner_each(home: Home) -> None:
    """However they fall: the run is moved at most once and ends once, as the cancel was told."""
    run_id = park(home, QUIET)
    (home.project / "quiet").touch()
    home.servers.start()
    resumes = [home.launch("resume", run_id, "--detach", "--json") for _ in range(3)]
    cancel = home.launch("cancel", run_id, "--json")
    answers = [json.loads(process.communicate(timeout=BOUND_S)[0]) for process in resumes]
    verdict = json.loads(cancel.communicate(timeout=BOUND_S)[0])
    assert (verdict["verdict"], verdict["status"]) == ("won", "cancelled")
    for answer in answers:
        refused = answer.get("error", {}).get("code") == "RUN_ENDED"
        assert refused or answer["verdict"] in {"resumable", "alreadyRunning"}
    assert home.show(run_id)["status"] == "cancelled"
    assert home.database.column(ASKED)[0] <= 1
    home.assert_verified()
