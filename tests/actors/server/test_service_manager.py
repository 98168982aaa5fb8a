"""A server under a service manager: what it is told, and when."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

if TYPE_CHECKING:
    from runtime.world import World
    from tests.actors.server.conftest import Start

Clock = trio.testing.MockClock


@dataclass
class Told:
    """A service manager that remembers; `reachable` says whether messages arrive."""

    watchdog_s: float | None = None
    reachable: bool = True
    messages: list[tuple[str, float]] = field(default_factory=list)

    def _say(self, word: str) -> bool:
        self.messages.append((word, round(trio.current_time(), 1)))
        return self.reachable

    def ready(self) -> bool:
        return self._say("ready")

    def alive(self) -> bool:
        return self._say("alive")

    def stopping(self) -> bool:
        return self._say("stopping")


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def world(world: "World", told: Told) -> "World":
    return replace(world, service_manager=told)


@pytest.mark.parametrize(
    ("watchdog_s", "every_s"), [(None, 10), (60.0, 10), (20.0, 10), (5.0, 2.5), (1.0, 0.5)]
)
async def test_service_manager_hears_ready_then_a_sign_of_life_per_beat_then_stopping(
    autojump_clock: Clock, start: "Start", told: Told, watchdog_s: float | None, every_s: float
) -> None:
    """Twice as often as the watchdog asks, where that is more than the claim needs."""
    told.watchdog_s = watchdog_s
    with trio.fail_after(60):
        async with start() as running:
            assert [word for word, _ in told.messages] == ["ready"]
            async with running.client() as client:
                assert (await client.call("server.status")).receipt["state"] == "ready"
            await trio.sleep(every_s * 3.5)
            beats = [at for word, at in told.messages if word == "alive"]
            assert beats == [round(every_s * count, 1) for count in (1, 2, 3)]
            running.server.stopping.set()
            await running.ended.wait()
            assert running.failure is None
    assert [word for word, _ in told.messages] == ["ready", "alive", "alive", "alive", "stopping"]


async def test_service_manager_that_cannot_be_reached_does_not_hinder_the_server(
    autojump_clock: Clock, start: "Start", told: Told
) -> None:
    told.reachable = False
    with trio.fail_after(60):
        async with start() as running:
            assert "service_manager_not_reached" in (running.paths.logs / "server.log").read_text()
            async with running.client() as client:
                assert (await client.call("server.status")).receipt["state"] == "ready"
            running.server.stopping.set()
            await running.ended.wait()
            assert running.failure is None


async def test_start_that_fails_is_never_called_ready(
    autojump_clock: Clock, start: "Start", told: Told
) -> None:
    with trio.fail_after(60):
        async with start() as running:
            running.server.stopping.set()
            await running.ended.wait()
        told.messages.clear()
        running.paths.socket.write_text("in the way")
        async with start() as running:
            await running.ended.wait()
            assert running.failure is not None
    assert told.messages == []
