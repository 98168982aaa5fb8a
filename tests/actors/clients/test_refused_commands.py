"""A command that is refused, for every reason it may have: told, and nothing else is written."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.frames import encode_frame
from runtime.process import ExitStatus
from tests.actors.clients.unchanged import SECRET, Untouched
from tests.actors.test_settings import create

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.actors.clients.conftest import Front
    from tests.actors.conftest import RunnerEnd

Clock = trio.testing.MockClock

CHANGE: Final = "run.changeSettings"
LARGE: Final = "x" * 65_536


def replacing(value: JsonValue, path: str = "") -> JsonObject:
    return {"op": "replace", "path": path, "value": value}


def patch(*operations: JsonObject) -> JsonObject:
    return {"patch": list(operations)}


@dataclass(frozen=True)
class Refusal:
    """One way to be refused.

    Attributes:
        code: of the refusal.
        says: what the text has: who is to blame, the rule, what to do.
        run_id: `run-1` works and has the settings 1, which a person may replace; `run-2` has
            ended; `run-3` is queued, and no other run is there.
        revision: that the request expects.
    """

    operation: str
    code: str
    says: "Sequence[str]"
    payload: JsonObject = field(default_factory=dict)
    run_id: str = "run-1"
    revision: int | None = None


SETTINGS: Final = [
    Refusal(CHANGE, "SETTINGS_DENIED", ["remove", "human"], patch({"op": "remove", "path": "/a"})),
    Refusal(
        CHANGE,
        "SETTINGS_DENIED",
        ["read", "human"],
        patch({"op": "test", "path": "", "value": SECRET}),
    ),
    Refusal(CHANGE, "SETTINGS_PATCH_INVALID", ["256"], patch(*[replacing(SECRET)] * 257)),
    Refusal(CHANGE, "SETTINGS_PATCH_INVALID", ["65536 bytes"], patch(replacing(LARGE))),
    Refusal(
        CHANGE,
        "SETTINGS_PATCH_INVALID",
        ["operation 1", "op is of"],
        patch({"op": SECRET, "path": ""}),
    ),
    Refusal(
        CHANGE,
        "SETTINGS_PATCH_INVALID",
        ["operation 2", "replace has exactly"],
        patch(replacing(SECRET), {**replacing(1), "from": SECRET}),
    ),
    Refusal(
        CHANGE,
        "SETTINGS_PATCH_FAILED",
        ["operation 2"],
        patch(replacing(SECRET), replacing(2, "/a")),
    ),
    Refusal(
        CHANGE,
        "SETTINGS_STALE",
        ["change 0, not 1", "look again"],
        {**patch(replacing(SECRET)), "expectedChangeNumber": 1},
    ),
    Refusal(
        CHANGE,
        "SETTINGS_UNKNOWN",
        ["run-1:sub:1", "pi-workflows settings show run-1"],
        {**patch(replacing(SECRET)), "scopeId": "run-1:sub:1"},
    ),
    Refusal(CHANGE, "SETTINGS_REJECTED", ["too odd"], patch(replacing(SECRET))),
    Refusal(
        CHANGE,
        "RUN_NOT_STARTED",
        ["run-3 has not started yet", "once it runs"],
        patch(replacing(SECRET)),
        run_id="run-3",
    ),
    Refusal(CHANGE, "RUN_ENDED", ["run-2"], patch(replacing(SECRET)), run_id="run-2"),
    Refusal(CHANGE, "RUN_UNKNOWN", ["run-0"], patch(replacing(SECRET)), run_id="run-0"),
]
RUNS: Final = [
    Refusal("run.pause", "RUN_ENDED", ["run-2", "cancelled"], run_id="run-2"),
    Refusal("run.resume", "RUN_ENDED", ["run-2", "cancelled"], run_id="run-2"),
    Refusal("run.restart", "RUN_NOT_ENDED", ["run-1"], revision=3),
    Refusal(
        "run.restart",
        "REVISION_STALE",
        ["at revision 2, and 7 was expected", "look again"],
        run_id="run-2",
        revision=7,
    ),
    Refusal(
        "run.cancel",
        "REVISION_STALE",
        ["at revision 1, and 7 was expected", "look again"],
        run_id="run-3",
        revision=7,
    ),
    *(
        Refusal(f"run.{verb}", "RUN_UNKNOWN", ["run-0"], run_id="run-0", revision=revision)
        for verb, revision in (("pause", None), ("resume", None), ("cancel", None), ("restart", 1))
    ),
    *(
        Refusal("run.cancel", "RUN_UNKNOWN", [], run_id=name)
        for name in ("../x", "a b", "x" * 201)
    ),
]
REFUSALS: Final = [*SETTINGS, *RUNS]
NAMES: Final = [f"{one.operation} {one.code} {n}" for n, one in enumerate(REFUSALS, start=1)]


async def checking(child: "RunnerEnd") -> ExitStatus:
    """What a workflow does that likes no change."""
    await child.launch()
    refusal: JsonObject = {"outcome": "refused", "code": "SETTINGS_REJECTED", "message": "too odd"}
    await child.lines.send(encode_frame({"outcome": "loading"}))
    await child.lines.send(encode_frame(refusal))
    return ExitStatus(0, None)


async def idling(child: "RunnerEnd") -> ExitStatus:
    await child.ready()
    return await child.hang()


@pytest.mark.parametrize("refusal", REFUSALS, ids=NAMES)
async def test_refused_command_leaves_nothing_but_its_receipt(
    autojump_clock: Clock, front: "Front", refusal: Refusal
) -> None:
    """Case: B70, B72, B76, A87."""
    bench = front.bench
    working, ended, _queued = [await create(bench, f"run-{n}") for n in (1, 2, 3)]
    bench.children(idling, checking)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(working).run)
            await trio.sleep(1)
            peer = await front.connect()
            await peer.ask("run.cancel", run_id=ended)
            untouched = Untouched(bench)
            request = peer.request(refusal.operation, refusal.payload, run_id=refusal.run_id)
            if refusal.revision is not None:
                request["expectedRevision"] = refusal.revision
            answer = await peer.answer(request)
            untouched.assert_only_a_receipt_is_new()
            nursery.cancel_scope.cancel()
    assert answer["outcome"] in {"rejected", "conflict", "notFound"}
    receipt, text = answer["receipt"], str(answer["error"])
    assert isinstance(receipt, dict)
    assert receipt["code"] == refusal.code, text
    for said in refusal.says:
        assert said in text
    assert SECRET not in repr(answer)
