"""Behaviour of what clients watch and read: pushed on change, coalesced, bounded."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import base64
import hashlib
import json
import socket
from typing import TYPE_CHECKING, cast

import pytest
import trio
import trio.testing

from actors.client_session import SUBSCRIPTIONS_MAX
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.frames import FRAME_BYTES_MAX, encode_frame
from runtime.exec_spawner import ExecSpawner
from runtime.process import ExitStatus

if TYPE_CHECKING:
    from tests.actors.clients.conftest import Front, Peer
    from tests.actors.conftest import RunnerEnd

Clock = trio.testing.MockClock


def receipt(reply: JsonObject) -> JsonObject:
    return cast("JsonObject", reply["receipt"])


def steps(view: JsonObject) -> int:
    payload = cast("JsonObject", view["payload"])
    return cast("int", cast("JsonObject", payload["steps"])["total"])


async def test_watch_of_a_missing_run_is_not_found_and_installs_nothing(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: C25."""
    with trio.fail_after(100):
        peer = await front.connect()
        reply = await peer.ask("view.run.watch", {"subscriptionId": "s"}, run_id="run-9")
        assert reply["outcome"] == "notFound"
        assert receipt(reply)["code"] == "RUN_UNKNOWN"
        await front.bench.create("run-9")
        await peer.ask("server.status")
        with trio.move_on_after(60):
            raise AssertionError(await peer.event())


async def test_unknown_run_is_answered_with_the_nearest_ids(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        await front.bench.create("2025-tally-abcd")
        peer = await front.connect()
        reply = await peer.ask("run.status", run_id="2025-tally-abce")
    assert reply["outcome"] == "notFound"
    assert receipt(reply)["nearest"] == ["2025-tally-abcd"]


async def test_watched_run_is_shown_at_once_and_pushed_with_growing_revisions(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(100):
        run_id = await front.bench.create()
        peer = await front.connect()
        reply = await peer.ask("view.run.watch", {"subscriptionId": "s"}, run_id=run_id)
        assert receipt(reply) == {"subscribed": True}
        views = [await peer.event()]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(front.bench.owner(run_id).run)
            while cast("JsonObject", views[-1]["payload"]).get("finalOutput") is None:
                views.append(await peer.event())
        for view in views:
            assert (view["event"], view["subscriptionId"]) == ("run_snapshot", "s")
            assert view["runId"] == run_id
            assert view["revision"] == cast("JsonObject", view["payload"])["revision"]
        revisions = [cast("int", view["revision"]) for view in views]
        assert revisions == sorted(set(revisions)), "equal views are not sent again"
        assert steps(views[-1]) == 2
        with trio.move_on_after(60):
            raise AssertionError(await peer.event())


async def test_view_the_client_knows_is_not_sent_again(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(100):
        run_id = await front.bench.create()
        peer = await front.connect()
        got = receipt(await peer.ask("view.run.get", run_id=run_id))
        revision = cast("JsonObject", got["view"])["revision"]
        watch: JsonObject = {"subscriptionId": "s", "revision": revision}
        await peer.ask("view.run.watch", watch, run_id=run_id)
        with trio.move_on_after(60):
            raise AssertionError(await peer.event())


async def test_unwatch_removes_a_subscription_of_any_kind(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(100):
        run_id = await front.bench.create()
        peer = await front.connect()
        await peer.ask("view.run.watch", {"subscriptionId": "run"}, run_id=run_id)
        await peer.ask("view.runs.watch", {"subscriptionId": "runs"})
        await peer.event()
        await peer.event()
        for name in ("run", "runs", "none"):
            await peer.ask("view.run.unwatch", {"subscriptionId": name})
        await front.bench.owner(run_id).run()
        with trio.move_on_after(60):
            raise AssertionError(await peer.event())


async def test_run_list_is_pushed_on_change_of_any_run(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        peer = await front.connect()
        await peer.ask("view.runs.watch", {"subscriptionId": "s", "limit": 2})
        seen = [await peer.event()]
        for name in ("run-1", "run-2", "run-3"):
            await front.bench.create(name)
            await trio.sleep(1)
            seen.append(await peer.event())
    lists = [cast("JsonObject", event["payload"]) for event in seen]
    names = [[item["runId"] for item in cast("list[JsonObject]", view["items"])] for view in lists]
    assert names == [[], ["run-1"], ["run-2", "run-1"], ["run-3", "run-2"]]
    assert len({str(view["revision"]) for view in lists}) == 4


async def test_client_that_never_reads_gets_one_view_at_the_end_and_others_are_on_time(
    autojump_clock: Clock, front: "Front", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes that come while a view is written make one more view, of what is then committed.

    Case: C26.
    """
    with trio.fail_after(600):
        run_id = await front.bench.create(run_input="x")
        deaf, good = await front.connect(), await front.connect()
        fill_socket_of(deaf)
        for peer in (deaf, good):
            await peer.ask("view.run.watch", {"subscriptionId": "s"}, run_id=run_id)
        on_time = [await good.event()]
        for _ in range(300):
            await front.show(run_id, title="t" * 2_000)
            committed_at = trio.current_time()
            on_time.append(await good.event())
            assert trio.current_time() - committed_at <= 0.1
        late: list[JsonObject] = []
        while not late or late[-1]["revision"] != on_time[-1]["revision"]:
            late.append(await deaf.event())
    assert len(on_time) == 301
    assert len(late) < 150, "the socket's own buffer and one view"
    assert late[-1] == on_time[-1]


def fill_socket_of(peer: "Peer") -> None:
    """Let the kernel hold as little as it can for a peer that does not read."""
    peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)


async def test_connection_watches_no_more_than_it_may(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        peer = await front.connect()
        for number in range(SUBSCRIPTIONS_MAX):
            await peer.ask("view.runs.watch", {"subscriptionId": f"s{number}"})
        refused = await peer.ask("view.runs.watch", {"subscriptionId": "one more"})
        again = await peer.ask("view.runs.watch", {"subscriptionId": "s0"})
    assert (refused["outcome"], again["outcome"]) == ("rejected", "accepted")


async def read(peer: "Peer", run_id: str, offered: JsonObject) -> bytes:
    """Read an offered document part by part."""
    data = b""
    while True:
        payload: JsonObject = {"path": offered["path"], "offset": len(data)}
        part = receipt(await peer.ask("view.content", payload, run_id=run_id))
        data += base64.b64decode(cast("str", part["data"]))
        if part["complete"]:
            return data
        assert part["nextOffset"] == len(data)


async def test_large_state_is_read_in_parts_that_are_verified(
    autojump_clock: Clock, front: "Front"
) -> None:
    large = "é" * 200_000
    with trio.fail_after(10):
        run_id = await front.bench.create(run_input=large)
        peer = await front.connect()
        offered = cast(
            "JsonObject", receipt(await peer.ask("run.status", run_id=run_id))["content"]
        )
        data = await read(peer, run_id, offered)
        other = await front.bench.create()
        gone: JsonObject = {"path": "artifacts/sha256/00.json"}
        unknown = await peer.ask("view.content", gone, run_id=run_id)
        beyond: JsonObject = {"path": offered["path"], "offset": len(data) + 1}
        too_far = await peer.ask("view.content", beyond, run_id=other)
    assert len(data) == offered["bytes"]
    assert hashlib.sha256(data).hexdigest() == offered["sha256"]
    assert json.loads(data)["input"] == large
    assert unknown["outcome"] == too_far["outcome"] == "notFound"
    assert receipt(unknown)["code"] == "CONTENT_UNKNOWN"


async def test_very_large_state_is_built_by_a_process_of_its_own(
    front: "Front", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop neither builds nor hashes it."""

    def refuse(*_: object) -> None:
        raise AssertionError("on the loop")

    front.bench.spawner.spawn = ExecSpawner().spawn  # type: ignore[method-assign, assignment]
    monkeypatch.setattr("actors.server_views.projection.run_state", refuse)
    monkeypatch.setattr("actors.server_views.digest_hex", refuse)
    large = "é" * 2_000_000
    with trio.fail_after(30):
        run_id = await front.bench.create(run_input=large)
        peer = await front.connect()
        offered = cast(
            "JsonObject", receipt(await peer.ask("run.status", run_id=run_id))["content"]
        )
        data = await read(peer, run_id, offered)
        unknown = await peer.ask("run.status", run_id="run-9")
    assert len(data) == offered["bytes"]
    assert hashlib.sha256(data).hexdigest() == offered["sha256"]
    assert json.loads(data)["input"] == large
    assert unknown["outcome"] == "notFound"
    assert front.bench.services.processes.children() == ()


async def test_reader_that_breaks_off_in_a_document_is_a_refusal(
    autojump_clock: Clock, front: "Front"
) -> None:
    async def break_off(child: "RunnerEnd") -> ExitStatus:
        announced: JsonObject = {"bytes": 100, "sha256": "ab" * 32}
        await child.lines.send(encode_frame({"answer": announced}))
        await child.lines.send(b"only this\n")
        return ExitStatus(1, None)

    front.bench.children(break_off)
    with trio.fail_after(10):
        run_id = await front.bench.create(run_input="x" * 600_000)
        peer = await front.connect()
        reply = await peer.ask("run.status", run_id=run_id)
    assert (reply["outcome"], receipt(reply)) == ("rejected", {"code": "INTERNAL"})


async def test_view_that_does_not_fit_is_left_out_and_the_connection_goes_on(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(100):
        run_id = await front.bench.create()
        peer = await front.connect()
        await peer.ask("view.run.watch", {"subscriptionId": "run"}, run_id=run_id)
        await peer.event()
        await front.show(run_id, title="t" * FRAME_BYTES_MAX)
        with trio.move_on_after(60):
            raise AssertionError(await peer.event())
        await front.show(run_id, title="short again")
        shown = cast("JsonObject", (await peer.event())["payload"])
    assert cast("JsonObject", shown["manifest"])["title"] == "short again"
    assert "view_dropped" in (front.bench.paths.logs / "server.log").read_text()


async def test_list_of_runs_with_long_titles_is_shown_and_paged(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        for number in range(8):
            await front.show(await front.bench.create(f"run-{number}"), title="t" * 200_000)
        peer = await front.connect()
        await peer.ask("view.runs.watch", {"subscriptionId": "s", "limit": 8})
        watched = cast("JsonObject", (await peer.event())["payload"])
        ids: list[object] = []
        cursor: JsonValue = None
        while not ids or cursor is not None:
            page = receipt(await peer.ask("run.list", {"limit": 8, "cursor": cursor}))
            ids += [item["runId"] for item in cast("list[JsonObject]", page["items"])]
            cursor = page["nextCursor"]
    assert len(cast("list[JsonObject]", watched["items"])) == 2
    assert ids == [f"run-{number}" for number in range(7, -1, -1)]


async def test_runs_are_listed_in_pages_and_by_status(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        for number in range(5):
            await front.bench.create(f"run-{number}")
        peer = await front.connect()
        await peer.ask("run.cancel", run_id="run-3")
        first = receipt(await peer.ask("run.list", {"limit": 3}))
        second = receipt(await peer.ask("run.list", {"limit": 3, "cursor": first["nextCursor"]}))
        cancelled = receipt(await peer.ask("run.list", {"status": "cancelled"}))
        elsewhere = receipt(await peer.ask("run.list", {"projectPath": "/elsewhere"}))
    pages = [cast("list[JsonObject]", page["items"]) for page in (first, second)]
    ids = [[item["runId"] for item in page] for page in pages]
    assert ids == [["run-4", "run-3", "run-2"], ["run-1", "run-0"]]
    assert second["nextCursor"] is None
    assert [item["runId"] for item in cast("list[JsonObject]", cancelled["items"])] == ["run-3"]
    assert elsewhere["items"] == []


async def test_status_of_the_server_names_no_run_no_project_and_no_secret(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: C113."""
    front.bench.children(front.bench.idling)
    with trio.fail_after(60):
        run_id = await front.bench.create("run-5ecret", run_input="s3cret input")
        await front.bench.create()
        peer = await front.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(front.bench.owner(run_id).run)
            await trio.sleep(1)
            status = receipt(await peer.ask("server.status"))
            nursery.cancel_scope.cancel()
    (token,) = front.bench.rows("SELECT hex(token_hash) FROM workflow_host_state")
    shown = json.dumps(status).lower()
    for secret in ("s3cret", "5ecret", "/projects", "key-", "client-", str(token[0]).lower()):
        assert secret not in shown
    assert status["activeRunners"] == status["running"] == status["queued"] == 1
    assert (status["epoch"], status["capacity"], status["state"]) == (1, 4, "ready")
    assert status["socket"] == str(front.bench.paths.socket)


async def test_state_is_counted_and_verified_by_a_process_of_its_own(
    front: "Front",
) -> None:
    """A real child reads while the server goes on; what it answers names no run's content.

    Case: A97.
    """
    spawner = ExecSpawner()
    front.bench.spawner.spawn = spawner.spawn  # type: ignore[method-assign, assignment]
    with trio.fail_after(30):
        await front.bench.create("run-5ecret", run_input="s3cret")
        peer, other = await front.connect(), await front.connect()
        await peer.send(peer.request("state.status"))
        assert (await other.ask("server.status"))["outcome"] == "accepted"
        first = await peer.receive()
        assert first is not None
        status = receipt(first)
        verified = receipt(await peer.ask("state.verify"))
        assert cast("JsonObject", status["counts"])["runs"] == {"queued": 1}
        assert status["violations"] == 0
        assert cast("int", status["walBytes"]) > 0
        assert "ecret" not in json.dumps(status) + json.dumps(verified)
        assert (verified["ok"], verified["violations"]) == (True, [])
        await front.bench.alter("UPDATE run_queue SET status = 'done', finished_at = 1")
        broken = receipt(await peer.ask("state.verify"))
    assert broken["ok"] is False
    assert front.bench.services.processes.children() == ()


async def test_reader_without_an_answer_is_a_refusal_and_the_next_one_has_its_turn(
    autojump_clock: Clock, front: "Front"
) -> None:
    front.bench.children(front.bench.hanging)
    with trio.fail_after(1_000):
        peer, other = await front.connect(), await front.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.ask, "state.verify")
            await trio.testing.wait_all_tasks_blocked()
            refused = await other.ask("state.status")
        assert 600 <= trio.current_time() < 610
    assert (refused["outcome"], receipt(refused)) == ("rejected", {"code": "INTERNAL"})
    assert front.bench.spawner.living_max == 1
