"""The real child process over a socket pair: user code that speaks while it runs."""

import os
from typing import TYPE_CHECKING, Final, cast

import pytest

from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.runner.messages import Reply

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from pi_workflows.runner.messages import Send
    from tests.runner.conftest import ScriptedServer
    from tests.runner.processes.conftest import Launcher

SPEAKING: Final = """
import gc
from pi_workflows.runner.channel import Channel, TurnOver
from pi_workflows.runner.messages import Send
def channel():
    return next(one for one in gc.get_objects() if isinstance(one, Channel))
def say(number):
    channel().request_in_turn(Send("runner.progress", {"number": number}, None))
"""


def move_revision(server: "ScriptedServer") -> None:
    """Let every word of user code raise the revision of the run."""

    def move(message: "Send") -> Reply | None:
        if message.operation != "runner.progress":
            return None
        server.revision += 1
        return Reply(WorkerMessageOutcome.ACCEPTED, server.revision)

    server.refuse = move


def test_threads_of_user_code_speak_while_it_runs_and_frames_never_mix(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    """The engine goes on from the revision that they have made."""
    move_revision(server)
    running = child(
        SPEAKING
        + """
@wf.compute()
def node() -> int:
    def many(first):
        for number in range(first, first + 50):
            say(number)
    threads = [threading.Thread(target=many, args=(first,)) for first in (0, 50, 100)]
    for thread in threads: thread.start()
    many(150)
    for thread in threads: thread.join()
    return 1
workflow = wf.build(start=node)
"""
    )
    running.launch()
    running.serve()
    assert running.end() == (0, "", "")
    said = [one.payload["number"] for one in server.messages if one.operation == "runner.progress"]
    assert sorted(cast("list[int]", said)) == list(range(200))
    assert server.path == [("node", "ok")]
    assert server.finished is not None


def test_a_thread_that_its_node_has_left_behind_is_not_heard(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child(
        SPEAKING
        + """
left, told = threading.Event(), []
def late():
    left.wait()
    try: say(1)
    except TurnOver: told.append("over")
thread = threading.Thread(target=late)
@wf.compute()
def node() -> int:
    speaker = channel()
    real = speaker.request
    def after(message):
        left.set()
        thread.join()
        print(told)
        speaker.request = real
        return real(message)
    speaker.request = after
    thread.start()
    return 1
workflow = wf.build(start=node)
"""
    )
    running.launch()
    running.serve()
    assert running.end() == (0, "['over']\n", "")
    assert [one.operation for one in server.messages].count("runner.progress") == 0


def test_the_end_of_abandoned_code_is_told_after_what_a_thread_of_it_is_saying(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    """It builds on the revision that those words have made, and nothing follows it."""
    move_revision(server)
    running = child(
        SPEAKING
        + """
@wf.compute(timeout=0.05)
def node(ctx: Ctx) -> int:
    threading.Thread(target=say, args=("x" * 900_000,)).start()
    while not ctx.cancelled:
        threading.Event().wait(0.001)
    (here / "late").write_text("late")
    threading.Thread(target=say, args=(2,)).start()
    threading.Event().wait()
workflow = wf.build(start=node)
"""
    )
    os.mkfifo(running.file.parent / "late")
    running.launch()
    running.serve_until_running("node")
    # Nobody reads: the thread's frame is half sent while the deadline passes.
    assert (running.file.parent / "late").read_text() == "late"
    running.serve()
    assert running.end()[0] == 0
    assert running.exiting == {"reason": "abandonedCode"}
    assert server.path == [("node", "timed_out")]
    operations = [message.operation for message in server.messages]
    assert operations.index("runner.progress") < len(operations) - 2
    assert operations[-2:] == ["run.advance", "runner.exiting"]


CLOSING: Final = {
    "all": "os.closerange(3, 256)",
    "channel": """
    for number in range(3, 256):
        try: kind = os.fstat(number).st_mode
        except OSError: continue
        if stat.S_ISSOCK(kind): os.close(number)
""",
}


@pytest.mark.parametrize("closing", CLOSING.values(), ids=CLOSING)
def test_code_that_closes_the_channel_ends_its_runner_and_reaches_nobody(
    closing: str, child: "Launcher", server: "ScriptedServer"
) -> None:
    """The next file to be opened gets the number of the channel; no frame goes there."""
    running = child(f"""
import os, stat
@wf.compute()
def node() -> int:
    {closing}
    for number in range(8):
        os.open(here / f"innocent-{{number}}", os.O_RDWR | os.O_CREAT)
    return 1
workflow = wf.build(start=node)
""")
    running.launch()
    running.serve()
    code, _, errors = running.end()
    assert code == 4
    assert "the channel is lost" in errors
    assert server.steps == []
    files = list(running.file.parent.glob("innocent-*"))
    assert not any(file.stat().st_size for file in files)


def test_an_answer_that_nobody_waits_for_is_passed_over(
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
    unknown: JsonObject = {"messageId": "m77", "outcome": "rejected", "error": "stray"}
    running.send(unknown)
    running.answer(ready)
    running.serve()
    assert running.end() == (0, "", "")
    assert server.path == [("node", "ok")]
