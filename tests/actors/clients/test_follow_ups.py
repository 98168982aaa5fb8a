"""Follow-ups over the protocol: durable, once, in order, and watched."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING, cast

import trio
import trio.testing

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.actors.clients.conftest import Front, Peer

Clock = trio.testing.MockClock


async def listed(peer: "Peer", run_id: str) -> list["JsonObject"]:
    answer = await peer.ask("followUp.list", {}, run_id=run_id)
    return cast("list[JsonObject]", cast("JsonObject", answer["receipt"])["items"])


async def test_follow_ups_are_queued_listed_and_taken_back_by_a_person(
    autojump_clock: Clock, front: "Front"
) -> None:
    """A repeat under another key adopts by its request id; each command left its receipt."""
    bench = front.bench
    with trio.fail_after(60):
        run_id = await bench.create()
        await bench.alter("UPDATE runs SET status = 'running'")
        peer = await front.connect()
        prompt: JsonObject = {"prompt": "Write the note.", "requestId": "n1", "source": "cli"}
        first = await peer.ask("followUp.queue", prompt, run_id=run_id)
        again = await peer.ask("followUp.queue", prompt, run_id=run_id)
        other = await peer.ask("followUp.queue", {"prompt": "Then rest."}, run_id=run_id)
        receipt = cast("JsonObject", first["receipt"])
        assert [reply["outcome"] for reply in (first, again, other)] == [
            "accepted",
            "adopted",
            "accepted",
        ]
        assert again["receipt"] == receipt
        assert (receipt["order"], receipt["state"]) == (1, "queued")
        shown = await listed(peer, run_id)
        assert [(item["prompt"], item["actor"], item["source"]) for item in shown] == [
            ("Write the note.", "human", "cli"),
            ("Then rest.", "human", "client"),
        ]
        wanted: JsonObject = {"followUpId": receipt["followUpId"], "reason": "done by hand"}
        removed = await peer.ask("followUp.remove", wanted, run_id=run_id)
        assert removed["outcome"] == "accepted"
        shown = await listed(peer, run_id)
        assert [item["state"] for item in shown] == ["removed", "queued"]
        view = await peer.ask("view.run.get", run_id=run_id)
        queue = cast("dict[str, JsonObject]", view["receipt"])["view"]["followUpQueue"]
        assert cast("JsonObject", queue)["unsent"] == 1
    assert len(bench.rows("SELECT 1 FROM host_commands WHERE operation LIKE 'followUp.%'")) == 4


async def test_viewer_of_a_run_is_told_of_a_new_follow_up(
    autojump_clock: Clock, front: "Front"
) -> None:
    """The run itself has not moved."""
    with trio.fail_after(60):
        run_id = await front.bench.create()
        await front.bench.alter("UPDATE runs SET status = 'running'")
        peer = await front.connect()
        await peer.ask("view.run.watch", {"subscriptionId": "s"}, run_id=run_id)
        before = cast("JsonObject", (await peer.event())["payload"])
        await peer.ask("followUp.queue", {"prompt": "Write the note."}, run_id=run_id)
        after = cast("JsonObject", (await peer.event())["payload"])
    assert after["runRevision"] == before["runRevision"]
    assert cast("JsonObject", after["followUpQueue"])["total"] == 1


async def test_refused_follow_up_is_told_with_its_code(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: B80."""
    with trio.fail_after(60):
        run_id = await front.bench.create()
        peer = await front.connect()
        early = await peer.ask("followUp.queue", {"prompt": "Write."}, run_id=run_id)
        await front.bench.alter("UPDATE runs SET status = 'running'")
        long = await peer.ask("followUp.queue", {"prompt": "x" * 65_537}, run_id=run_id)
        unknown = await peer.ask("followUp.remove", {"followUpId": "f"}, run_id=run_id)
        named = await peer.ask("followUp.list", {}, run_id="run-0")
    codes = [
        (reply["outcome"], cast("JsonObject", reply["receipt"])["code"])
        for reply in (early, long, unknown, named)
    ]
    assert codes == [
        ("rejected", "RUN_NOT_STARTED"),
        ("rejected", "FOLLOW_UP_INVALID"),
        ("notFound", "FOLLOW_UP_UNKNOWN"),
        ("notFound", "RUN_UNKNOWN"),
    ]
