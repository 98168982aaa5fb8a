"""The real child process over a socket pair: updates of a node, in time and too late."""

from typing import TYPE_CHECKING, Any, cast

from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.runner.messages import Reply

if TYPE_CHECKING:
    from pi_workflows.runner.messages import Send
    from tests.runner.conftest import ScriptedServer
    from tests.runner.processes.conftest import Launcher


def take_updates(server: "ScriptedServer") -> list[dict[str, Any]]:
    """Let every update raise the revision of the run; return where they are noted."""
    taken: list[dict[str, Any]] = []

    def take(message: "Send") -> Reply | None:
        if message.operation != "run.publishUpdate":
            return None
        taken.append(cast("dict[str, Any]", message.payload))
        server.revision += 1
        return Reply(WorkerMessageOutcome.ACCEPTED, server.revision)

    server.refuse = take
    return taken


def test_action_publishes_from_its_threads_and_its_run_goes_on(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    taken = take_updates(server)
    running = child("""
@wf.action(effect=idempotent("x"))
def node(ctx: Ctx) -> int:
    def tell(key):
        for number in range(10):
            ctx.publish_update("count", key, {"n": number})
    threads = [threading.Thread(target=tell, args=(key,)) for key in "ab"]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    ctx.progress(completed=1, total=1, unit="node", status="completed")
    return 1
@wf.compute()
def then(ctx: Ctx) -> int:
    return ctx.output(node)
wf.edge(node, then)
workflow = wf.build(start=node)
""")
    running.launch()
    running.serve()
    assert running.end() == (0, "", "")
    assert server.path == [("node", "ok"), ("then", "ok")]
    assert [one["data"]["n"] for one in taken if one["key"] == "a"] == list(range(10))
    assert len(taken) == 21
    assert taken[-1]["data"]["status"] == "completed"
    assert len({one["attemptId"] for one in taken}) == 1


def test_async_action_publishes_too(child: "Launcher", server: "ScriptedServer") -> None:
    taken = take_updates(server)
    running = child("""
import trio
@wf.action(effect=idempotent("x"))
async def node(ctx: Ctx) -> int:
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(trio.to_thread.run_sync, ctx.publish_update, "n", str(number), {})
    ctx.progress()
    return 1
workflow = wf.build(start=node)
""")
    running.launch()
    running.serve()
    assert running.end() == (0, "", "")
    assert sorted(one["key"] for one in taken) == ["0", "1", "2", "overall"]
    assert server.finished is not None


def test_update_after_the_deadline_is_refused_and_not_sent(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    """Case: B64."""
    taken = take_updates(server)
    running = child("""
from pi_workflows import UpdateRefused
@wf.action(effect=idempotent("x"), timeout=0.2)
def node(ctx: Ctx) -> int:
    ctx.progress()
    while not ctx.cancelled:
        threading.Event().wait(0.01)
    try:
        ctx.progress()
    except UpdateRefused as refused:
        print(refused)
    return 1
workflow = wf.build(start=node)
""")
    running.launch()
    running.serve()
    code, printed, _ = running.end()
    assert code == 0
    assert printed.startswith("UpdateRefused [UPDATE_REFUSED] the update is not sent: the node's")
    assert len(taken) == 1
    assert server.path == [("node", "timed_out")]


def test_thread_of_an_ended_node_publishes_under_its_own_attempt_or_not_at_all(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    """While the next node runs the server sees whose update it is; between two it is not sent.

    Case: B64.
    """
    taken = take_updates(server)
    running = child("""
from pi_workflows import UpdateRefused
go_on, told = threading.Event(), threading.Event()
@wf.action(effect=idempotent("x"))
def node(ctx: Ctx) -> int:
    def late():
        go_on.wait()
        ctx.publish_update("late", "k", {})
        told.set()
    threading.Thread(target=late, daemon=True).start()
    ctx.progress()
    return 1
@wf.action(effect=idempotent("y"))
def then(ctx: Ctx) -> int:
    ctx.progress()
    go_on.set()
    told.wait()
    return 2
wf.edge(node, then)
workflow = wf.build(start=node)
""")
    running.launch()
    running.serve()
    assert running.end()[0] == 0
    first, second, late = taken
    assert late["type"] == "late"
    assert late["attemptId"] == first["attemptId"] != second["attemptId"]
