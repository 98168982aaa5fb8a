"""The real child process over a socket pair: how it ends when somebody else wants it to."""

import os
import select
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.runner.conftest import ScriptedServer
    from tests.runner.processes.conftest import Child, Launcher


BOUND_MS: Final = 20_000
SHELL_THAT_SAYS_ITS_PID: Final = """
@wf.shell(effect=idempotent("long"))
def long() -> Command:
    return Command("trap '' TERM; echo $$ > pid; sleep 600", shell=True)
workflow = wf.build(start=long)
"""


def pidfd_of_shell(running: "Child") -> int:
    """Learn the pid of the running command through a named pipe, without polling."""
    os.mkfifo(running.file.parent / "pid")
    running.launch()
    running.serve_until_running("long")
    return os.pidfd_open(int((running.file.parent / "pid").read_text()))


def ended(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        return bool(poll.poll(BOUND_MS))
    finally:
        os.close(descriptor)


def test_the_end_of_the_stream_kills_the_shell_group_and_the_child(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child(SHELL_THAT_SAYS_ITS_PID)
    shell = pidfd_of_shell(running)
    running.connection.close()
    assert ended(shell)
    assert running.end()[0] == 4
    assert server.steps == []


def test_the_end_of_the_stream_ends_user_code_that_never_returns(child: "Launcher") -> None:
    running = child("""
@wf.compute()
def stuck() -> None:
    (here / "up").write_text("up")
    threading.Event().wait()
workflow = wf.build(start=stuck)
""")
    os.mkfifo(running.file.parent / "up")
    running.launch()
    running.serve_until_running("stuck")
    assert (running.file.parent / "up").read_text() == "up"
    running.connection.close()
    assert running.end()[0] == 4


def test_a_lost_claim_ends_the_child_without_another_message(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child(SHELL_THAT_SAYS_ITS_PID)
    running.launch()
    ready = running.receive()
    assert ready is not None
    running.send({"messageId": ready["messageId"], "outcome": "claimLost"})
    assert running.receive() is None
    assert running.end()[0] == 3
    assert server.steps == []


def test_a_stop_abandons_the_node_unrecorded(child: "Launcher", server: "ScriptedServer") -> None:
    running = child(SHELL_THAT_SAYS_ITS_PID)
    shell = pidfd_of_shell(running)
    running.process.send_signal(signal.SIGTERM)
    running.serve()
    assert ended(shell)
    assert running.end()[0] == 0
    assert running.exiting is not None
    assert running.exiting["reason"] == "stopped"
    assert server.steps == []
    assert server.active is not None


def test_a_stop_ends_code_that_ignores_it(child: "Launcher", server: "ScriptedServer") -> None:
    running = child("""
@wf.compute()
def stuck() -> None:
    (here / "up").write_text("up")
    threading.Event().wait()
workflow = wf.build(start=stuck)
""")
    os.mkfifo(running.file.parent / "up")
    running.launch()
    running.serve_until_running("stuck")
    assert (running.file.parent / "up").read_text() == "up"
    running.process.send_signal(signal.SIGTERM)
    running.serve()
    assert running.end()[0] == 0
    assert running.exiting == {"reason": "stopped", "detail": "user code did not stop"}
    assert server.steps == []


def test_a_forked_child_does_not_hold_the_channel_of_a_dead_runner(child: "Launcher") -> None:
    """The server hears of the runner's end at once, however long the child lives."""
    running = child("""
import os
@wf.compute()
def forking() -> None:
    if os.fork() == 0:
        (here / "pid").write_text(str(os.getpid()))
        (here / "end").read_text()
        os._exit(0)
    threading.Event().wait()
workflow = wf.build(start=forking)
""")
    os.mkfifo(running.file.parent / "pid")
    os.mkfifo(running.file.parent / "end")
    running.launch()
    running.serve_until_running("forking")
    forked = os.pidfd_open(int((running.file.parent / "pid").read_text()))
    running.process.kill()
    assert running.receive() is None
    poll = select.poll()
    poll.register(forked, select.POLLIN)
    assert poll.poll(0) == []
    (running.file.parent / "end").write_text("now")
    assert ended(forked)


def test_a_forked_child_that_is_told_to_end_ends_and_the_runner_goes_on(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
import multiprocessing, signal
@wf.compute()
def parallel() -> int:
    worker = multiprocessing.get_context("fork").Process(target=signal.pause)
    worker.start()
    worker.terminate()
    worker.join()
    return worker.exitcode
workflow = wf.build(start=parallel)
""")
    running.launch()
    running.serve()
    assert running.end() == (0, "", "")
    assert server.path == [("parallel", "ok")]
    assert server.finished is not None
    assert server.finished["finalOutput"] == -signal.SIGTERM


def test_a_forked_child_that_goes_on_as_the_runner_is_nobody(
    child: "Launcher", server: "ScriptedServer"
) -> None:
    running = child("""
import os
@wf.compute()
def forking() -> int:
    forked = os.fork()
    return os.waitpid(forked, 0)[1] if forked else 0
workflow = wf.build(start=forking)
""")
    running.launch()
    running.serve()
    code, _, errors = running.end()
    assert code == 0
    assert "the channel is lost" in errors
    assert server.path == [("forking", "ok")]
    assert server.finished is not None
    assert server.finished["finalOutput"] == 4 << 8


def test_the_end_of_the_stream_kills_what_cleared_its_environment_and_left_the_group(
    child: "Launcher",
) -> None:
    running = child("""
import os, subprocess
@wf.compute()
def starting() -> None:
    silent = {"env": {}, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    tool = subprocess.Popen(["/bin/sleep", "600"], process_group=0, **silent)
    stranger = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, **silent)
    (here / "pid").write_text(f"{tool.pid} {stranger.pid}")
    threading.Event().wait()
workflow = wf.build(start=starting)
""")
    os.mkfifo(running.file.parent / "pid")
    running.launch()
    running.serve_until_running("starting")
    pids = (running.file.parent / "pid").read_text().split()
    tool, stranger = [os.pidfd_open(int(pid)) for pid in pids]
    running.connection.close()
    assert running.end()[0] == 4
    assert ended(tool)
    signal.pidfd_send_signal(stranger, 0)
    signal.pidfd_send_signal(stranger, signal.SIGKILL)
    assert ended(stranger)
