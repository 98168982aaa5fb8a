"""Exits of included workflows in the engine loop: what they carry, and to whom."""

from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows import Ctx, Definition, Workflow
from pi_workflows.protocol.content import INLINE_BYTES_MAX
from pi_workflows.runner.messages import Purpose
from tests.runner.repairing import RepairIn, child

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonValue
    from tests.runner.conftest import Player, ScriptedServer


def test_a_validator_that_raises_fails_the_run(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    def refuse(_: int) -> int:
        raise ValueError("too small")

    inner = Workflow("inner")

    @inner.compute()
    def one() -> int:
        return 1

    done = inner.exit("done", one, validate=refuse)
    wf = Workflow("outer")

    @wf.compute()
    def begin() -> None:
        pass

    mount = wf.include("m", inner.build(start=one))
    wf.edge(begin, mount)

    @wf.compute()
    def after() -> None:
        pass

    wf.edge(mount[done], after)
    player(wf.build(start=begin), server).play()
    assert server.path[-1] == ("m/__piw_exit_done", "failed")
    assert server.finished is not None
    assert str(server.finished["error"]).startswith("ValueError: too small")


def test_an_exit_of_an_inner_mount_carries_the_same_value_further(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    inner = Workflow("inner")

    @inner.compute()
    def one() -> int:
        return 1

    done = inner.exit("done", one)
    middle = Workflow("middle")

    @middle.compute()
    def begin() -> None:
        pass

    deep = middle.include("deep", inner.build(start=one))
    middle.edge(begin, deep)
    over = middle.exit("over", deep[done], validate=lambda n: n + 1)
    wf = Workflow("outer")

    @wf.compute()
    def first() -> None:
        pass

    mount = wf.include("m", middle.build(start=begin))

    @wf.compute()
    def last(ctx: Ctx[Any]) -> int | None:
        return ctx.exited(mount, over)

    wf.edge(first, mount)
    wf.edge(mount[over], last)
    player(wf.build(start=first), server).play()
    outputs: dict[Any, JsonValue] = {step["nodeId"]: step["output"] for step in server.steps}
    assert outputs["m/deep/__piw_exit_done"] == {"exit": "done", "output": 1}
    assert outputs["m/__piw_exit_over"] == {"exit": "over", "output": 2}
    assert outputs["last"] == 2


def two_exits() -> Definition:
    """A workflow that is left by `done` with 7, and could be by `other`."""
    wf = Workflow("inner")

    @wf.compute()
    def seven() -> int:
        return 7

    @wf.compute()
    def done(ctx: Ctx[Any]) -> int:
        return ctx.output(seven)

    @wf.compute()
    def other() -> int:
        return 0

    wf.on_outcome(seven, ok=done, failed=other)
    wf.exit("done", done)
    wf.exit("other", other)
    return wf.build(start=seven)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("done", 7),
        ("other", None),
        ("dnoe", "mount \"m\" has no exit 'dnoe'; it has: done, other"),
        (3, 'mount "m" has no exit 3; it has: done, other'),
    ],
)
def test_an_exit_is_asked_for_by_its_name_where_that_is_all_there_is(
    asked: Any,  # noqa: ANN401 - wrong ones too
    found: object,
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    wf = Workflow("outer")

    @wf.compute()
    def first() -> None:
        pass

    mount = wf.include("m", two_exits())

    @wf.compute()
    def last(ctx: Ctx[Any]) -> object:
        return ctx.exited(mount, asked)

    wf.edge(first, mount)
    wf.edge(mount["done"], last)
    wf.edge(mount["other"], last)
    player(wf.build(start=first), server).play()
    last_step = server.steps[-1]
    assert last_step.get("output") == found or str(found) in str(last_step.get("error"))


def test_a_large_output_leaves_a_child_by_reference(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    inner = Workflow("inner")

    @inner.compute()
    def much() -> str:
        return "x" * INLINE_BYTES_MAX

    done = inner.exit("done", much)
    wf = Workflow("outer")

    @wf.compute()
    def first() -> None:
        pass

    mount = wf.include("m", inner.build(start=much))

    @wf.compute()
    def last(ctx: Ctx[Any]) -> int:
        return len(ctx.exited(mount, done) or "")

    wf.edge(first, mount)
    wf.edge(mount[done], last)
    player(wf.build(start=first), server).play(crash_before=None)
    (leaving,) = server.sent("exitInclude")
    assert "output" not in leaving
    assert server.steps[-1]["output"] == INLINE_BYTES_MAX


def test_the_result_of_a_run_is_presented_with_what_left_the_last_mount(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    built, fixed, blocked = child()
    wf = Workflow("parent", presentation_prompt=lambda given, output: f"{given} {output['exit']}")

    @wf.compute()
    def begin() -> None:
        pass

    fix = wf.include("fix", built, input=lambda _: RepairIn(issue="x", tries=1))
    wf.edge(begin, fix)
    wf.exit("fixed", fix[fixed])
    wf.exit("blocked", fix[blocked])
    server.input = "in"
    playing = player(wf.build(start=begin), server)
    playing.play()
    (presented,) = [m for m in server.messages if m.operation == "run.present"]
    assert presented.payload == {"text": "in fixed"}
    assert playing.calls[-1].purpose is Purpose.PRESENT
