"""Behaviour of a start after a crash, on the files a crash leaves."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from actors import owning
from runtime.process import ExitStatus

if TYPE_CHECKING:
    from tests.actors.conftest import RunnerEnd
    from tests.actors.server.conftest import Running, Start

Clock = trio.testing.MockClock
STATE: Final = """
    SELECT r.status, q.status, q.error_code, e.status
      FROM runs AS r JOIN run_queue AS q USING (run_id), effects AS e
     WHERE e.effect_type = 'mail.send'
"""


@pytest.mark.parametrize(
    ("recovery", "found"),
    [
        ("manual", [("waiting", "parked", "effectAmbiguous", "ambiguous")]),
        ("idempotent", [("completed", "done", None, "applied")]),
    ],
)
async def test_effect_in_flight_at_a_crash_goes_by_its_recovery_kind(
    autojump_clock: Clock,
    start: "Start",
    home: Path,
    recovery: str,
    found: list[tuple[object, ...]],
) -> None:
    """The image of the files at one instant is what a killed server leaves.

    Case: A51.
    """

    async def act(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        await child.advance(
            child.finished("first"),
            child.started("second", node_type="action"),
            child.reserve("second", "mail.send", recovery),
        )
        return await child.hang()

    async def again(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("second", node_type="action"))
        grant = child.granted(await child.advance(child.reserve("second", "mail.send", recovery)))
        assert grant["attemptNumber"] == 2
        await child.advance(
            child.settled(grant, "applied"),
            child.finished("second"),
            {"type": "finishRun", "status": "completed"},
        )
        return await child.leave("finished")

    with trio.fail_after(60):
        async with start() as running:
            running.bench.children(act)
            await running.bench.create_with_effect("mail.send", recovery)
            await trio.sleep(1)
            assert running.bench.spawner.living == 1
            _take_image(running, home)
            running.server.stopping.set()
            await running.ended.wait()
        _put_back(running, home)
        running.bench.children(again)
        async with start() as running:
            await trio.sleep(2)
            rows = running.bench.rows
            assert rows(STATE) == found
            assert rows("SELECT status FROM run_workers ORDER BY started_at")[0] == ("orphaned",)
            assert rows("SELECT count(*) FROM leases WHERE owner_id IS NOT NULL") == [(0,)]
            assert rows("SELECT epoch FROM workflow_host_state") == [(2,)]
            running.server.stopping.set()
            await running.ended.wait()
            assert running.failure is None


async def test_start_recovers_every_run_however_many_it_takes_at_a_time(
    autojump_clock: Clock, start: "Start", home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two to a transaction here, of as many as a server has in hand."""

    async def hang(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        return await child.hang()

    monkeypatch.setattr(owning, "RECOVERED_TOGETHER", 2)
    with trio.fail_after(60):
        async with start() as running:
            running.bench.children(hang)
            for _ in range(5):
                await running.bench.create()
            await trio.sleep(1)
            in_hand = running.bench.rows("SELECT count(*) FROM run_workers WHERE ready_at > 0")
            _take_image(running, home)
            running.server.stopping.set()
            await running.ended.wait()
        _put_back(running, home)
        running.bench.children(running.bench.working)
        async with start() as running:
            await trio.sleep(2)
            orphaned = "SELECT count(*) FROM run_workers WHERE status = 'orphaned'"
            assert running.bench.rows(orphaned) == in_hand == [(4,)]
            assert running.bench.rows("SELECT DISTINCT status FROM runs") == [("completed",)]
            running.server.stopping.set()
            await running.ended.wait()


def _take_image(running: "Running", home: Path) -> None:
    """Keep the files as they are now: what a killed server leaves."""
    ignored = shutil.ignore_patterns("host*")
    shutil.copytree(running.paths.state_dir, home / "image", ignore=ignored)


def _put_back(running: "Running", home: Path) -> None:
    for file in (home / "image").iterdir():
        shutil.copy(file, running.paths.state_dir / file.name)
