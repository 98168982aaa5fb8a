"""The operator's verbs over the protocol: durable, once, and the run goes on."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING, Any, Final, cast

import pytest
import trio
import trio.testing

from actors.run_owner import RunOwner
from pi_workflows.protocol.states import RunStatus
from runtime.process import ExitStatus

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from pi_workflows.protocol.ids import RunId
    from tests.actors.clients.conftest import Front, Peer
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

MANUAL: Final = ("mail.send", "manual")
REASON: Final = "it is in the outbox"


async def lose_sight(child: "RunnerEnd") -> ExitStatus:
    """Die in the middle of the second node's effect."""
    await child.ready()
    await child.go_on(child.started("first"))
    await child.go_on(child.finished("first"), child.started("second", node_type="action"))
    await child.advance(child.reserve("second", *MANUAL))
    return ExitStatus(1, None)


async def adopt(child: "RunnerEnd") -> ExitStatus:
    """Come back to the node and do as the grant says."""
    await child.ready()
    await child.go_on(child.started("second", node_type="action"))
    granted = child.granted(await child.advance(child.reserve("second", *MANUAL)))
    assert granted["status"] == "applied"
    output = granted["result"]
    await child.go_on({**child.finished("second"), "output": output})
    await child.go_on({"type": "finishRun", "status": "completed"})
    return await child.leave("finished")


async def stranded(bench: "Bench") -> tuple["RunId", str]:
    """Return a run that waits for an operator, and its effect."""
    bench.children(lose_sight, adopt)
    run_id = await bench.create_with_effect(*MANUAL)
    assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).status is RunStatus.WAITING
    ((effect,),) = bench.rows("SELECT effect_id FROM effects WHERE status = 'ambiguous'")
    return run_id, str(effect)


def word(effect: str, verb: str, **more: Any) -> "JsonObject":  # noqa: ANN401
    return {"effectId": effect, "verb": verb, "reason": REASON, **more}


async def listed(peer: "Peer", **wanted: Any) -> list["JsonObject"]:  # noqa: ANN401
    answer = await peer.ask("effect.list", wanted)
    receipt = cast("JsonObject", answer["receipt"])
    assert receipt["nextCursor"] is None
    return cast("list[JsonObject]", receipt["items"])


async def test_resolved_effect_leaves_the_list_and_its_run_completes_with_the_given_output(
    autojump_clock: Clock, front: "Front"
) -> None:
    bench = front.bench
    with trio.fail_after(60):
        run_id, effect = await stranded(bench)
        peer = await front.connect()
        (shown,) = await listed(peer)
        named = ("effectId", "runId", "runStatus", "status")
        assert [shown[name] for name in named] == [effect, run_id, "waiting", "ambiguous"]
        answer = await peer.ask("effect.resolve", word(effect, "applied", output={"id": 7}))
        assert answer["outcome"] == "accepted"
        assert answer["receipt"] == {
            "effectId": effect,
            "runId": run_id,
            "verb": "applied",
            "status": "applied",
            "runStatus": "waiting",
            "goesOn": True,
            "paused": False,
        }
        assert await listed(peer, runId=run_id) == []
        (settled,) = await listed(peer, runId=run_id, all=True)
        assert settled["status"] == "applied"
        assert await RunOwner(bench.services, run_id).run()
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    assert bench.rows("SELECT run_id FROM host_commands WHERE operation = 'effect.resolve'") == [
        (run_id,)
    ]


async def test_lost_reply_of_a_resolve_is_asked_for_again_and_adopts(
    autojump_clock: Clock, front: "Front"
) -> None:
    """The same key adopts its receipt; the same word under another key adopts the fact."""
    with trio.fail_after(60):
        _, effect = await stranded(front.bench)
        peer = await front.connect()
        payload = word(effect, "retry")
        outcomes = [
            (await peer.ask("effect.resolve", payload, key=key))["outcome"]
            for key in ("one", "one", "two")
        ]
    assert outcomes == ["accepted", "adopted", "adopted"]


async def test_word_said_again_while_its_run_is_at_work_adopts_and_another_is_told_what_stands(
    autojump_clock: Clock, front: "Front"
) -> None:
    """The run went on at the first word: its live claim is this server's own, and no obstacle."""
    bench = front.bench
    at_work = trio.Event()

    async def go_on(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        at_work.set()
        return await child.hang()

    with trio.fail_after(60):
        run_id, effect = await stranded(bench)
        peer = await front.connect()
        await peer.ask("effect.resolve", word(effect, "retry"))
        bench.children(go_on)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(RunOwner(bench.services, run_id).run)
            await at_work.wait()
            again = await peer.ask("effect.resolve", word(effect, "retry"), key="again")
            other = await peer.ask("effect.resolve", word(effect, "rejected"), key="other")
            nursery.cancel_scope.cancel()
    assert again["outcome"] == "adopted"
    assert other["outcome"] == "conflict"
    assert cast("JsonObject", other["receipt"])["code"] == "EFFECT_SETTLED"


async def test_of_two_operators_one_wins_and_the_other_is_told_what_stands(
    autojump_clock: Clock, front: "Front"
) -> None:
    answers: dict[str, JsonObject] = {}
    with trio.fail_after(60):
        _, effect = await stranded(front.bench)
        async with trio.open_nursery() as nursery:

            async def say(verb: str) -> None:
                peer = await front.connect()
                answers[verb] = await peer.ask("effect.resolve", word(effect, verb))

            for verb in ("applied", "rejected", "retry"):
                nursery.start_soon(say, verb)
    outcomes = sorted(str(answer["outcome"]) for answer in answers.values())
    assert outcomes == ["accepted", "conflict", "conflict"]
    (lost, *_) = [answer for answer in answers.values() if answer["outcome"] == "conflict"]
    assert cast("JsonObject", lost["receipt"])["code"] == "EFFECT_SETTLED"


async def test_unknown_effect_run_and_cursor_are_named(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(60):
        peer = await front.connect()
        unknown = await peer.ask("effect.resolve", word("effect-of-nobody", "applied"))
        no_run = await peer.ask("effect.list", {"runId": "run-of-nobody"})
    assert (unknown["outcome"], no_run["outcome"]) == ("notFound", "notFound")
    assert cast("JsonObject", unknown["receipt"]) == {"code": "EFFECT_UNKNOWN"}


@pytest.mark.parametrize(
    "payload",
    [
        {"verb": "applied", "reason": "x"},
        {"effectId": "e", "verb": "maybe", "reason": "x"},
        {"effectId": "e", "verb": "applied", "reason": " "},
        {"effectId": "e", "verb": "applied", "reason": "x" * 2_049},
        {"effectId": "e", "verb": "rejected", "reason": "x", "output": None},
        {"effectId": "e", "verb": "retry", "reason": "x", "more": 1},
    ],
)
async def test_malformed_words_are_refused_before_anything_is_stored(
    autojump_clock: Clock, front: "Front", payload: "JsonObject"
) -> None:
    with trio.fail_after(60):
        peer = await front.connect()
        answer = await peer.ask("effect.resolve", payload)
        unnamed = await peer.ask("effect.list", {"all": True})
    assert cast("JsonObject", answer["receipt"])["code"] == "PAYLOAD_INVALID"
    assert cast("JsonObject", unnamed["receipt"])["code"] == "PAYLOAD_INVALID"
    assert front.bench.rows("SELECT * FROM host_commands") == []
