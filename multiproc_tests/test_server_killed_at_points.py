"""The server kills itself at named points: what it has promised is kept, nothing else is."""

import json
from collections.abc import Callable

import pytest

from multiproc_tests.harness.database import ORDER
from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import NOTING, OUTPUT, SHELLING, SHORT, STEPS, three
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import Channel, open_channel
from pi_workflows.client.errors import ConnectionLost, Refused
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import CommandOutcome
from runtime.sync_points import SyncPoint

COMMANDS = {
    SyncPoint.COMMAND_BEFORE_BEGIN: False,
    SyncPoint.COMMAND_AFTER_BEGIN: False,
    SyncPoint.COMMAND_AFTER_COMMAND: False,
    SyncPoint.COMMAND_BEFORE_COMMIT: False,
    SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY: True,
    SyncPoint.COMMAND_AFTER_REPLY: True,
}
"""Points of a command, and whether it is durable there."""

STARTS = [point for point in SyncPoint if point.startswith("start.")]
STORED = """
    SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM run_queue),
           (SELECT count(*) FROM events), (SELECT count(*) FROM host_commands)
"""
FINISHED = "SELECT run_id FROM runs WHERE finished_at IS NOT NULL"


@pytest.mark.parametrize("point", COMMANDS)
def test_server_killed_anywhere_in_a_start_and_the_repeat_starts_exactly_one_run(
    home: Home, point: SyncPoint
) -> None:
    """The client repeats by itself what it got no answer to, with the same client id and key.

    Case: A22, A23, C18, C20.
    """
    armed = home.servers.start_armed(point, die_at=1)
    stored: list[tuple[int, ...]] = []

    def restart() -> None:
        armed.assert_died(point)
        stored.extend(home.database.rows_after_a_crash(STORED))
        home.servers.start()

    with BlockingClient(_reconnecting(home, restart)) as client:
        payload = _start_of(home, SHORT)
        reply = client.call("run.start", payload, idempotency_key="start")
        again = client.call("run.start", payload, idempotency_key="start")
        with pytest.raises(Refused) as refused:
            client.call("run.start", {**payload, "input": 1}, idempotency_key="start")
    durable = COMMANDS[point]
    assert stored == [(durable,) * 4]
    assert (reply.adopted, again.adopted) == (durable, True)
    assert reply.receipt == again.receipt
    assert refused.value.outcome is CommandOutcome.CONFLICT
    (run,) = home.listed()
    assert run["runId"] == reply.receipt["runId"]
    home.assert_completed(run["runId"], ["only 1"], "done")
    assert home.notes() == ["only"]


def test_server_killed_in_the_middle_of_an_answer_and_the_repeat_adopts(home: Home) -> None:
    """The two frames before it are the hello for whoever started the server, and for the client.

    Case: C18.
    """
    armed = home.servers.start_armed(SyncPoint.SOCKET_MID_FRAME, die_at=3)

    def restart() -> None:
        armed.assert_died(SyncPoint.SOCKET_MID_FRAME)
        home.servers.start()

    with BlockingClient(_reconnecting(home, restart)) as client:
        reply = client.call("run.start", _start_of(home, SHORT))
    assert reply.adopted
    home.assert_completed(str(reply.receipt["runId"]), ["only 1"], "done")
    assert home.notes() == ["only"]


@pytest.mark.parametrize(
    "point",
    [
        SyncPoint.CLAIM_BEFORE_COMMIT,
        SyncPoint.RUNNER_AFTER_SPAWN_BEFORE_ATTACH,
        SyncPoint.RUNNER_READY_BEFORE_REPLY,
    ],
)
def test_server_killed_while_it_launches_a_runner_and_the_next_one_launches_another(
    home: Home, point: SyncPoint
) -> None:
    armed = home.servers.start_armed(point, die_at=1)
    run_id = home.run(SHORT)
    armed.assert_died(point)
    home.servers.start()
    home.assert_completed(run_id, ["only 1"], "done")
    assert home.notes() == ["only"]


def test_effect_applied_but_not_settled_when_the_server_dies_is_applied_again(
    home: Home,
) -> None:
    """The command ran and nobody wrote it down: an idempotent one runs again under its key.

    Case: A51, B34.
    """
    point = SyncPoint.EFFECT_AFTER_APPLY_BEFORE_SETTLE
    armed = home.servers.start_armed(point, die_at=1)
    run_id = home.run(NOTING)
    armed.assert_died(point)
    home.servers.start()
    home.assert_completed(run_id, ["only 1"], "done")
    assert home.notes() == ["only", "only"]


@pytest.mark.parametrize(
    "point", [SyncPoint.COMMAND_BEFORE_COMMIT, SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY]
)
def test_servers_killed_at_the_first_second_third_commit_and_so_on_finish_the_run_right(
    home: Home, point: SyncPoint
) -> None:
    """Each server lives for one commit more than the one before it.

    Case: B43.
    """
    spawning = SyncPoint.RUNNER_AFTER_SPAWN_BEFORE_ATTACH
    first = home.servers.start_armed(spawning, die_at=1)
    run_id = home.run(three(SHELLING))
    first.assert_died(spawning)
    crashes: list[tuple[list[str], int]] = []
    while not _finishes_before_commit(home, len(crashes) + 1, point):
        steps = [row[0] for row in home.database.rows_after_a_crash(ORDER, run_id)]
        crashes.append((steps, len(home.notes())))
    home.servers.start()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert len(crashes) >= 5
    for steps, noted in crashes:
        ran_later = {line.split()[0] for line in home.notes()[noted:]}
        assert not ran_later & {step.split()[0] for step in steps}


@pytest.mark.parametrize(
    "point",
    [
        SyncPoint.COMMAND_BEFORE_COMMIT,
        SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY,
        SyncPoint.COMMAND_AFTER_REPLY,
    ],
)
def test_no_answer_is_lost_and_none_is_acted_upon_twice_while_servers_keep_dying(
    home: Home, point: SyncPoint
) -> None:
    """One server after the other lives for one commit more, in the middle of five requests.

    Whatever a client was told is in the file of each server that died after it.

    Case: A22, C18.
    """
    armed = [home.servers.start_armed(point, die_at=1)]
    acknowledged: list[str] = []

    def replace_the_dead() -> None:
        armed[-1].assert_died(point)
        known = {row[0] for row in home.database.rows_after_a_crash("SELECT run_id FROM runs")}
        assert set(acknowledged) <= known
        armed.append(home.servers.start_armed(point, die_at=len(armed) + 1))

    with BlockingClient(_reconnecting(home, replace_the_dead)) as client:
        for number in range(5):
            receipt = _insist(client, _start_of(home, SHORT), f"start {number}")
            acknowledged.append(str(receipt["runId"]))
    assert len(armed) > 3
    armed[-1].server.kill()
    home.servers.start()
    assert {run["runId"] for run in home.listed()} == set(acknowledged)
    assert len(set(acknowledged)) == 5
    for run_id in acknowledged:
        home.assert_completed(run_id, ["only 1"], "done")


def test_start_killed_at_any_point_is_done_by_the_next_one(home: Home) -> None:
    """Each start finds a run in hand and what the start before it has done.

    Case: C4.
    """
    killed = home.servers.start()
    run_id = home.run(three(SHELLING))
    home.meetings.arrive("second")
    killed.kill()
    for point in STARTS:
        home.servers.launch_armed(point, die_at=1).assert_died(point)
    home.servers.start()
    with_epoch = len(STARTS) - STARTS.index(SyncPoint.START_EPOCH_TAKEN)
    assert json.loads(home.command("server", "status", "--json"))["epoch"] == with_epoch + 2
    node = home.meetings.arrive("second")
    assert node.facts["attempt"] == 2
    node.go()
    home.assert_completed(run_id, STEPS, OUTPUT)


@pytest.mark.parametrize("point", STARTS)
def test_very_first_start_killed_at_a_point_is_done_by_the_next_one(
    home: Home, point: SyncPoint
) -> None:
    """The epoch says whether the dead one had got so far; nothing else of it is left.

    Case: C4, C13.
    """
    home.servers.launch_armed(point, die_at=1).assert_died(point)
    home.servers.start()
    had_epoch = STARTS.index(point) >= STARTS.index(SyncPoint.START_EPOCH_TAKEN)
    status = json.loads(home.command("server", "status", "--json"))
    assert (status["epoch"], status["state"]) == (1 + had_epoch, "ready")
    home.assert_verified()
    home.assert_completed(home.run(SHORT), ["only 1"], "done")


def _finishes_before_commit(home: Home, number: int, point: SyncPoint) -> bool:
    """Kill a server at its commit of this number, or at the first one after the run's end."""
    armed = home.servers.launch_armed(point)
    finished = False
    stops = 0
    while stops < number and not finished:
        if not armed.stops_before_an_arrival(home.meetings):
            home.meetings.arrive("second").go()
            continue
        stops += 1
        finished = bool(home.database.rows(FINISHED))
        if stops < number and not finished:
            armed.release()
    armed.server.kill()
    return finished


def _reconnecting(home: Home, restart: Callable[[], None]) -> Callable[[], Channel]:
    """Return what connects a client: at once, and after a loss to the next server."""
    connected: list[None] = []

    def connect() -> Channel:
        if connected:
            restart()
        connected.append(None)
        return open_channel(home.paths.socket)

    return connect


def _insist(client: BlockingClient, payload: JsonObject, key: str) -> JsonObject:
    """Ask until there is an answer; the client itself asks a few times only."""
    for _ in range(20):
        try:
            return client.call("run.start", payload, idempotency_key=key).receipt
        except ConnectionLost:
            continue
    raise AssertionError("never answered")


def _start_of(home: Home, text: str) -> JsonObject:
    return {"projectPath": str(home.project), "workflow": str(home.write(text))}
