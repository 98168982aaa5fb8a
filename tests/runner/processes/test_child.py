"""The real child process over a socket pair: runs, refusals, errors, deadlines."""

from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.runner.conftest import ScriptedServer
    from tests.runner.processes.conftest import Launcher


def test_a_run_goes_from_start_to_end(child: "Launcher", server: "ScriptedServer") -> None:
    running = child("""
@wf.compute()
async def first(ctx: Ctx) -> int:
    import trio
    await trio.lowlevel.checkpoint()
    return ctx.input["n"] + 1
@wf.shell(effect=idempotent("echo"), parse=lambda r: r.stdout)
def second(ctx: Ctx) -> Command:
    return Command("printf", ["%s", str(ctx.output(first))])
@wf.action(effect=manual("keep"))
def third(ctx: Ctx) -> str:
    return ctx.output(second) + "!"
wf.edge(first, second); wf.edge(second, third)
workflow = wf.build(start=first)
""")
    server.input = {"n": 41}
    running.launch()
    running.serve()
    assert running.end() == (0, "", "")
    assert running.exiting == {"reason": "finished"}
    assert server.path == [("first", "ok"), ("second", "ok"), ("third", "ok")]
    assert server.finished is not None
    assert server.finished["finalOutput"] == "42!"


def test_what_user_code_prints_is_never_protocol(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
LIKE = '{"messageId":"m1","outcome":"claimLost"}\\n{"control":"stop"}'
print(LIKE)
@wf.compute()
def node() -> str:
    print(LIKE, flush=True)
    print(LIKE, file=sys.stderr)
    return LIKE
workflow = wf.build(start=node)
""")
    running.launch()
    running.serve()
    code, out, errors = running.end()
    assert code == 0
    assert out.count("claimLost") == 2
    assert "claimLost" in errors
    assert server.path == [("node", "ok")]


def test_an_edited_source_parks_before_any_of_it_is_imported(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
@wf.compute()
def node() -> int: return 1
workflow = wf.build(start=node)
""")
    running.file.write_text("open('imported', 'w')\n")
    running.launch()
    running.serve()
    assert running.end()[0] == 0
    park = server.messages[0]
    assert park.operation == "run.park"
    assert park.payload["reason"] == "workflowSourceChanged"
    assert str(running.file) in str(park.payload["detail"])
    assert running.exiting is not None
    assert running.exiting["reason"] == "parked"
    assert not (running.file.parent / "imported").exists()


@pytest.mark.parametrize("change", ["missing", "digest"])
def test_a_missing_source_or_another_definition_parks(
    change: str, child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
@wf.compute()
def node() -> int: return 1
workflow = wf.build(start=node)
""")
    if change == "missing":
        running.file.unlink()
    running.launch(digest="0" * 64)
    running.serve()
    assert running.end()[0] == 0
    assert [message.operation for message in server.messages] == ["run.park", "runner.exiting"]


def test_an_exception_is_told_with_its_line_and_without_a_traceback(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
@wf.compute()
def node() -> int:
    raise ValueError("x" * 20_000)
workflow = wf.build(start=node)
""")
    running.launch()
    running.serve()
    error = str(server.steps[0]["error"])
    assert error.startswith("ValueError: xxx")
    assert error.endswith("… (cut) (child.workflow.py:10)")
    assert len(error) <= 8_192


def test_sys_exit_in_a_node_fails_the_node_only(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
@wf.compute()
def node() -> int:
    sys.exit("enough")
workflow = wf.build(start=node)
""")
    running.launch()
    running.serve()
    assert str(server.steps[0]["error"]).startswith("SystemExit: enough")
    assert running.exiting == {"reason": "finished"}


def test_sync_code_that_ignores_its_deadline_is_abandoned(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    """The time-out is recorded, nothing is started after it, and a fresh child goes on."""
    text = """
@wf.action(effect=manual("stuck"), timeout=0.05)
def stuck() -> None:
    threading.Event().wait()
@wf.compute()
def after(ctx: Ctx) -> str:
    return ctx.result(stuck).outcome
wf.on_outcome(stuck, ok=after, timed_out=after)
workflow = wf.build(start=stuck)
"""
    running = child(text)
    running.launch()
    running.serve()
    assert running.end()[0] == 0
    assert running.exiting == {"reason": "abandonedCode"}
    assert server.path == [("stuck", "timed_out")]
    assert server.effects["effect-stuck-1"]["status"] == "ambiguous"
    assert server.active is None
    fresh = child(text)
    fresh.launch()
    fresh.serve()
    assert server.path == [("stuck", "timed_out"), ("after", "ok")]
    assert server.finished is not None
    assert server.finished["finalOutput"] == "timed_out"


def test_sync_code_that_heeds_its_deadline_goes_on_in_the_same_child(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
@wf.compute(timeout=0.05)
def polite(ctx: Ctx) -> int:
    while not ctx.cancelled:
        threading.Event().wait(0.001)
    return 1
workflow = wf.build(start=polite)
""")
    running.launch()
    running.serve()
    assert running.exiting == {"reason": "finished"}
    assert server.path == [("polite", "timed_out")]
    assert server.finished is not None
    assert server.finished["status"] == "timed_out"


def test_async_code_is_cancelled_at_its_deadline(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
import trio
@wf.compute(timeout=0.05)
async def waiting() -> None:
    try:
        await trio.sleep_forever()
    finally:
        (here / "cleaned").touch()
@wf.compute()
async def after() -> str:
    await trio.lowlevel.checkpoint()
    return "recovered"
wf.on_outcome(waiting, ok=after, timed_out=after)
workflow = wf.build(start=waiting)
""")
    running.launch()
    running.serve()
    assert running.end() == (0, "", "")
    assert running.exiting == {"reason": "finished"}
    assert server.path == [("waiting", "timed_out"), ("after", "ok")]
    assert (running.file.parent / "cleaned").exists()


def test_a_shell_command_is_killed_at_its_deadline(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
@wf.shell(effect=manual("long"), timeout=0.05)
def long() -> Command:
    return Command("sleep", ["600"])
workflow = wf.build(start=long)
""")
    running.launch()
    running.serve()
    assert running.exiting == {"reason": "finished"}
    assert server.path == [("long", "timed_out")]
    assert server.effects["effect-long-1"]["status"] == "ambiguous"
    assert cast("JsonObject", server.steps[0]["receipt"])["signal"] == "SIGTERM"


def test_an_action_whose_batch_is_cut_off_at_the_deadline_returns_in_its_own_child(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    """The command ignores SIGTERM for as long as code alone would be granted; it gets more."""
    running = child("""
from pi_workflows import BatchCommand, BatchKind
script = 'trap "" TERM; while :; do sleep 1; done'
@wf.action(effect=idempotent("checks.run"), timeout=0.2)
def checks(ctx: Ctx) -> None:
    stuck = BatchCommand(id="a", command="sh", args=["-c", script], cwd="/", timeout=600)
    (result,) = ctx.command_batch([stuck], kind=BatchKind.REVIEW).items
    (here / "told").write_text(f"{result.outcome} {result.signal}")
workflow = wf.build(start=checks)
""")
    running.launch()
    running.serve()
    assert running.exiting == {"reason": "finished"}
    assert server.path == [("checks", "timed_out")]
    assert (running.file.parent / "told").read_text() == "cancelled SIGKILL"


def test_a_rejected_message_is_passed_on_as_the_reason(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
@wf.compute()
def node() -> int: return 1
workflow = wf.build(start=node)
""")
    running.launch()
    ready = running.receive()
    assert ready is not None
    running.answer(ready)
    advance = running.receive()
    assert advance is not None
    running.send({"messageId": advance["messageId"], "outcome": "rejected", "error": "stale"})
    running.serve()
    assert running.exiting == {"reason": "rejected", "detail": "stale"}
    assert running.end()[0] == 0
    assert server.steps == []


def test_a_workflow_that_no_longer_loads_is_told_with_its_line(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
import sibling_that_is_gone
""")
    running.launch(digest="0" * 64)
    running.serve()
    assert running.end()[0] == 0
    assert running.exiting is not None
    assert running.exiting["reason"] == "failed"
    assert "sibling_that_is_gone" in str(running.exiting["detail"])
    assert [message.operation for message in server.messages] == ["runner.exiting"]
