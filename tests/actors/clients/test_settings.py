"""Settings over the protocol: authorised here, looked at in a child, recorded once."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
import trio.testing

from actors.settings_control import TRIES_MAX
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.frames import encode_frame
from runtime.process import ExitStatus
from tests.actors.test_settings import change, create

if TYPE_CHECKING:
    from pi_workflows.protocol.ids import RunId
    from tests.actors.clients.conftest import Front
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock
Child = Callable[["RunnerEnd"], Awaitable[ExitStatus]]

OPERATION: Final = "run.changeSettings"
ACCEPTED: Final[JsonObject] = {"outcome": "accepted"}


def patch(value: JsonValue, op: str = "replace") -> JsonObject:
    return {"op": op, "path": "", "value": value}


def wanted(value: JsonValue, **more: Any) -> JsonObject:  # noqa: ANN401
    return {"patch": [patch(value)], **more}


class Checker:
    """A child that is asked about changes.

    Attributes:
        asked: what it was asked.
        meanwhile: is called before each answer.
    """

    def __init__(self, answer: JsonObject = ACCEPTED) -> None:
        self.answer = answer
        self.asked: list[JsonObject] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, child: "RunnerEnd") -> ExitStatus:
        self.asked.append(await child.launch())
        await child.lines.send(encode_frame({"outcome": "loading"}))
        if self.meanwhile is not None:
            await self.meanwhile()
        await child.lines.send(encode_frame(self.answer))
        return ExitStatus(0, None)


@asynccontextmanager
async def running(bench: "Bench", *children: Child) -> AsyncIterator["RunId"]:
    """A run with settings at work; the next children are these."""
    run_id = await create(bench)

    async def work(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        return await child.hang()

    bench.children(work, *children)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.owner(run_id).run)
        await trio.sleep(1)
        yield run_id
        nursery.cancel_scope.cancel()


async def test_a_change_is_looked_at_recorded_and_told(
    autojump_clock: Clock, front: "Front"
) -> None:
    check = Checker()
    async with running(front.bench, check) as run_id:
        peer = await front.connect()
        answer = await peer.ask(OPERATION, wanted(2, source="test"), run_id=run_id)
        assert (answer["outcome"], answer["revision"]) == ("accepted", 1)
        assert answer["receipt"] == {
            "runId": run_id,
            "scopeId": "run-1:$root:1",
            "changeNumber": 1,
            "adopted": False,
        }
        (asked,) = check.asked
        assert (asked["before"], asked["after"], asked["actor"]) == (1, 2, "human")
        shown = (await peer.ask("settings.show", run_id=run_id))["receipt"]
        assert isinstance(shown, dict)
        (scope,) = shown["items"]  # type: ignore[misc, str-unpack]
        assert isinstance(scope, dict)
        assert (scope["settings"], scope["mountPath"], scope["changeNumber"]) == (2, [], 1)
        history = (await peer.ask("settings.history", run_id=run_id))["receipt"]
        assert isinstance(history, dict)
        (record,) = history["items"]  # type: ignore[misc, str-unpack]
        assert isinstance(record, dict)
        assert (record["actor"], record["source"]) == ("human", "test")
        assert record["patch"] == [patch(2)]


async def test_a_repeat_with_the_same_key_adopts_and_another_change_under_it_conflicts(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: B73."""
    check = Checker()
    async with running(front.bench, check) as run_id:
        peer = await front.connect()
        first = await peer.ask(OPERATION, wanted(2), run_id=run_id, key="k")
        again = await peer.ask(OPERATION, wanted(2), run_id=run_id, key="k")
        assert (again["outcome"], again["receipt"]) == ("adopted", first["receipt"])
        other = await peer.ask(OPERATION, wanted(3), run_id=run_id, key="k")
        assert other["outcome"] == "conflict"
        assert len(check.asked) == 1


async def test_what_the_rules_refuse_starts_no_child(
    autojump_clock: Clock, front: "Front"
) -> None:
    check = Checker()
    async with running(front.bench, check) as run_id:
        peer = await front.connect()
        many: list[JsonValue] = [patch(2)] * 257
        cases: list[tuple[JsonObject, str]] = [
            ({"patch": [{"op": "test", "path": "", "value": 1}]}, "SETTINGS_DENIED"),
            ({"patch": many}, "SETTINGS_PATCH_INVALID"),
            ({"patch": [patch("x" * 65_536)]}, "SETTINGS_PATCH_INVALID"),
            (wanted(2, expectedChangeNumber=1), "SETTINGS_STALE"),
            (wanted(2, scopeId="run-1:sub:1"), "SETTINGS_UNKNOWN"),
            (wanted(2, source=""), "PAYLOAD_INVALID"),
        ]
        for payload, code in cases:
            answer = await peer.ask(OPERATION, payload, run_id=run_id)
            assert isinstance(answer["receipt"], dict)
            assert answer["receipt"]["code"] == code
        assert not check.asked


async def test_what_the_workflow_refuses_is_not_recorded(
    autojump_clock: Clock, front: "Front"
) -> None:
    refusing = Checker({"outcome": "refused", "code": "SETTINGS_REJECTED", "message": "too odd"})

    async def leave(child: "RunnerEnd") -> ExitStatus:
        await child.launch()
        await child.lines.send(encode_frame({"outcome": "loading"}))
        return ExitStatus(5, None)

    async with running(front.bench, refusing, leave) as run_id:
        peer = await front.connect()
        answer = await peer.ask(OPERATION, wanted(2), run_id=run_id)
        assert (answer["outcome"], answer["error"]) == ("rejected", "too odd")
        answer = await peer.ask(OPERATION, wanted(2), run_id=run_id)
        assert "exit code 5" in str(answer["error"])
        assert front.bench.rows("SELECT count(*) FROM workflow_setting_changes") == [(0,)]


async def test_a_check_that_never_came_is_no_answer_and_may_be_asked_for_again(
    autojump_clock: Clock, front: "Front"
) -> None:
    async def die(child: "RunnerEnd") -> ExitStatus:
        await child.launch()
        return ExitStatus(1, None)

    async with running(front.bench, die, Checker()) as run_id:
        peer = await front.connect()
        answer = await peer.ask(OPERATION, wanted(2), run_id=run_id, key="k")
        assert isinstance(answer["receipt"], dict)
        assert answer["receipt"]["code"] == "RESOLVER_FAILED"
        again = await peer.ask(OPERATION, wanted(2), run_id=run_id, key="k")
        assert again["outcome"] == "accepted"


async def test_without_an_expected_number_the_newest_settings_are_taken(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Others are faster while the workflow looks at it: it looks at what stands then.

    Case: B72.
    """
    check = Checker()
    async with running(front.bench, check) as run_id:
        others = [1, 2]

        async def meanwhile() -> None:
            if others:
                await change(front.bench, run_id, others.pop(0))

        check.meanwhile = meanwhile
        peer = await front.connect()
        answer = await peer.ask(OPERATION, wanted(9), run_id=run_id)
        assert (answer["outcome"], answer["revision"]) == ("accepted", 3)
        assert [asked["before"] for asked in check.asked] == [1, 2, 2]


@pytest.mark.parametrize(
    ("payload", "looks"),
    [(wanted(9), TRIES_MAX), (wanted(9, expectedChangeNumber=0), 1)],
    ids=["the newest", "exactly these"],
)
async def test_a_change_that_is_always_overtaken_is_given_up(
    payload: JsonObject, looks: int, autojump_clock: Clock, front: "Front"
) -> None:
    """After 8 looks, or at once when it expects a number."""
    check = Checker()
    async with running(front.bench, check) as run_id:

        async def meanwhile() -> None:
            await change(front.bench, run_id, len(check.asked))

        check.meanwhile = meanwhile
        peer = await front.connect()
        answer = await peer.ask(OPERATION, payload, run_id=run_id, key="k")
        assert answer["outcome"] == "conflict"
        assert isinstance(answer["receipt"], dict)
        assert answer["receipt"]["code"] == "SETTINGS_STALE"
        assert len(check.asked) == looks
        again = await peer.ask(OPERATION, payload, run_id=run_id, key="k")
        assert again["outcome"] == "conflict"
        assert len(check.asked) == looks


async def test_settings_of_a_queued_run_are_not_changed(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: B76."""
    run_id = await create(front.bench)
    peer = await front.connect()
    answer = await peer.ask(OPERATION, wanted(2), run_id=run_id)
    assert isinstance(answer["receipt"], dict)
    assert (answer["outcome"], answer["receipt"]["code"]) == ("rejected", "RUN_NOT_STARTED")
    assert not front.bench.spawner.spawned


async def test_a_watcher_of_the_run_is_shown_the_change(
    autojump_clock: Clock, front: "Front"
) -> None:
    async with running(front.bench, Checker()) as run_id:
        peer = await front.connect()
        await peer.ask("view.run.watch", {"subscriptionId": "s"}, run_id=run_id)
        await peer.event()
        await peer.ask(OPERATION, wanted({"deep": [1]}), run_id=run_id)
        payload = (await peer.event())["payload"]
        assert isinstance(payload, dict)
        (scope,) = payload["settings"]  # type: ignore[misc, str-unpack]
        assert isinstance(scope, dict)
        assert scope["settings"] == {"deep": [1]}


async def test_long_lists_come_in_pages(autojump_clock: Clock, front: "Front") -> None:
    async with running(front.bench) as run_id:
        for number in range(1, 71):
            await change(front.bench, run_id, number)
        peer = await front.connect()
        seen: list[Any] = []
        after: JsonValue = 0
        while after is not None:
            page = await peer.ask("settings.history", {"after": after}, run_id=run_id)
            assert isinstance(page["receipt"], dict)
            items = page["receipt"]["items"]
            assert isinstance(items, list)
            seen += items
            after = page["receipt"]["next"]
        assert [item["changeNumber"] for item in seen] == list(range(1, 71))
        wrong = await peer.ask("settings.show", {"cursor": "x"}, run_id=run_id)
        assert isinstance(wrong["receipt"], dict)
        assert wrong["receipt"]["code"] == "PAYLOAD_INVALID"
