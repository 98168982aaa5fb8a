"""A process that leaves its runner's session ends with it, by this server or by the next one."""

from typing import Final

import pytest

from multiproc_tests.harness.home import Home

STARTING: Final = """
import subprocess
from pi_workflows import ProcessRefused

SCRIPT = "trap '' TERM HUP; sleep 600 & echo up; while :; do sleep 600; done"

@wf.action(effect=idempotent("tool.started"))
def second(ctx: Ctx) -> str:
    tool = subprocess.Popen(
        ["/bin/sh", "-c", SCRIPT],
        start_new_session=True, stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"},
    )
    ctx.register_process(tool.pid)
    tool.stdout.readline()
    with_us = subprocess.Popen(["/bin/sh", "-c", "exec sleep 600"])
    for change, pid in ((ctx.register_process, with_us.pid), (ctx.unregister_process, 1)):
        try:
            change(pid)
            raise AssertionError("it was taken")
        except ProcessRefused:
            continue
    other = subprocess.Popen(["/bin/cat"], start_new_session=True, stdin=subprocess.PIPE)
    ctx.register_process(other.pid)
    ctx.unregister_process(other.pid)
    other.communicate()
    return meet("second", tool=tool.pid)

workflow = wf.build(start=second)
"""


def test_process_outside_the_session_ends_with_its_runner(home: Home) -> None:
    """Case: C39."""
    home.servers.start()
    run_id = home.run(STARTING)
    at = home.meetings.arrive("second")
    tool = home.watch(at.facts["tool"])
    assert tool.is_alive
    at.go()
    home.assert_completed(run_id, ["second 1"], "second")
    tool.await_end()


@pytest.mark.parametrize("dies", ["server", "both"])
def test_next_server_ends_what_a_dead_one_had_in_its_registry(home: Home, dies: str) -> None:
    """Nobody else can: its parent is gone, its environment is cleared, its session is its own.

    Case: C9, C39.
    """
    home.servers.start()
    run_id = home.run(STARTING)
    before = home.meetings.arrive("second")
    tool = home.watch(before.facts["tool"])
    if dies == "both":
        home.servers.alive[0].freeze()
        before.runner.kill()
    home.servers.alive[0].kill()
    before.runner.await_end()
    assert tool.is_alive
    home.servers.start()
    tool.await_end()
    after = home.meetings.arrive("second")
    after.go()
    home.assert_completed(run_id, ["second 1"], "second")
