"""Who is in the way of a start, what is waited for, and who alone is ever killed."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from runtime.errors import ProcessesSurvived
from runtime.lock_file import read_lock_file
from runtime.session_end import END_WAIT_S
from store.host import HOST_CLAIM_MS

if TYPE_CHECKING:
    from tests.actors.server_lock.conftest import Scene

Clock = trio.testing.MockClock
Script = Callable[[trio.abc.Stream], Awaitable[None]]


async def say_hello(stream: trio.abc.Stream) -> None:
    await stream.send_all(b"{}\n")


async def say_nothing(stream: trio.abc.Stream) -> None:
    """Accept, like the kernel does for a process that stands still."""
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("named", ["no file", "reused pid"])
async def test_lock_that_nobody_holds_is_taken_without_a_probe(
    autojump_clock: Clock, scene: "Scene", named: str
) -> None:
    """The one who has the pid now is a stranger, and is neither asked nor signalled.

    Case: C3.
    """
    holder = scene.earlier if named == "reused pid" else None
    scene.hold(holder, flock=False)
    scene.answer(say_hello)
    locked = await scene.acquire()
    assert locked.predecessor == holder
    assert (scene.probes, scene.people.signals, trio.current_time()) == (0, [], 0)
    assert scene.people.lives
    locked.release(scene.paths, scene._world.files)
    assert not scene.paths.lock.exists()


async def test_process_that_has_ended_is_not_probed(autojump_clock: Clock, scene: "Scene") -> None:
    """Case: C3."""
    scene.hold(scene.other, flock=False)
    scene.people.lives = False
    assert (await scene.acquire()).predecessor == scene.other
    assert (scene.probes, trio.current_time()) == (0, 0)


async def test_server_that_answers_is_left_alone_and_named_at_once(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    """Whatever its claim says.

    Case: C1.
    """
    scene.hold(scene.other)
    scene.claim(scene.other, beat_ago_s=600)
    scene.answer(say_hello)
    assert f"PID {scene.other.identity.pid}) is already running" in await scene.refused()
    assert (scene.probes, trio.current_time()) == (1, 0)


@pytest.mark.parametrize("script", [None, say_nothing], ids=["unconnectable", "silent"])
async def test_deaf_holder_with_a_lapsed_claim_is_killed_exactly_and_replaced(
    autojump_clock: Clock, scene: "Scene", script: Script | None
) -> None:
    """Within about a second: two looks, and nobody else is signalled.

    Case: C2.
    """
    scene.hold(scene.other)
    scene.claim(scene.other, beat_ago_s=HOST_CLAIM_MS / 1000)
    if script is not None:
        scene.answer(script)
    assert (await scene.acquire()).predecessor == scene.other
    assert scene.people.signals == [(scene.other.identity, signal.SIGKILL)]
    assert scene.probes == 2
    assert trio.current_time() < 1.5


async def test_deaf_holder_with_a_live_claim_makes_the_start_give_up_and_is_not_touched(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    """Case: C2."""
    scene.hold(scene.other)
    scene.claim(scene.other, beat_ago_s=5)
    scene.answer(say_nothing)
    text = await scene.refused()
    assert "does not answer. Its claim lapses in 17 s; then a start takes over" in text
    assert 8 <= trio.current_time() < 9


async def test_deaf_holder_is_killed_as_soon_as_its_claim_lapses(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    """Case: C2."""
    scene.hold(scene.other)
    scene.claim(scene.other, beat_ago_s=25)
    scene.answer(say_nothing)
    await scene.acquire()
    assert scene.people.signals == [(scene.other.identity, signal.SIGKILL)]
    assert 5 <= trio.current_time() < 7


async def test_holder_that_answers_at_the_second_look_is_left_alone(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    """It was busy; its heartbeat is about to take its claim up again."""

    async def say_hello_later(stream: trio.abc.Stream) -> None:
        if scene.probes > 1:
            await say_hello(stream)

    scene.hold(scene.other)
    scene.claim(scene.other, beat_ago_s=600)
    scene.answer(say_hello_later)
    await scene.refused()
    assert scene.probes == 2


@pytest.mark.parametrize("age", [0.0, 19.0, None], ids=["new", "below a claim", "age unknown"])
async def test_holder_that_is_starting_is_waited_for_and_its_database_not_opened(
    autojump_clock: Clock, scene: "Scene", age: float | None
) -> None:
    """What the dead server before it has left there says nothing about it."""
    scene.people.age = age
    scene.claim(scene.earlier, beat_ago_s=600)
    scene.hold(scene.other)
    assert "is starting and does not answer yet" in await scene.refused()
    assert 8 <= trio.current_time() < 9
    assert scene.looks_at_database == 0


async def test_holder_that_was_starting_and_serves_is_named(
    autojump_clock: Clock, scene: "Scene", nursery: trio.Nursery
) -> None:
    async def serve_later() -> None:
        await trio.sleep(4)
        scene.answer(say_hello)

    scene.people.age = 0
    scene.hold(scene.other)
    nursery.start_soon(serve_later)
    assert "is already running" in await scene.refused()
    assert 4 <= trio.current_time() < 5


async def test_holder_that_was_stopping_and_lets_go_is_followed(
    autojump_clock: Clock, scene: "Scene", nursery: trio.Nursery
) -> None:
    """Its claim is released and its socket gone, while it still empties its log."""

    async def end_later() -> None:
        await trio.sleep(4)
        scene.people.end()

    scene.claim(scene.earlier, beat_ago_s=0)
    scene.hold(scene.other)
    nursery.start_soon(end_later)
    await scene.acquire()
    assert scene.people.signals == []
    assert 4 <= trio.current_time() < 5


async def test_old_holder_without_a_claim_is_killed_after_eight_seconds(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    """Stuck in its start or at its end."""
    scene.hold(scene.other)
    await scene.acquire()
    assert scene.people.signals == [(scene.other.identity, signal.SIGKILL)]
    assert 8 <= trio.current_time() < 9


@pytest.mark.parametrize("named", ["no file", "unprovable"])
async def test_unprovable_holder_of_the_flock_is_waited_for_and_never_signalled(
    autojump_clock: Clock, scene: "Scene", named: str
) -> None:
    scene.hold(scene.other if named == "unprovable" else None)
    scene.claim(scene.other, beat_ago_s=600)
    scene.people.unprovable = True
    assert "holds the lock and does not answer" in await scene.refused()
    assert 8 <= trio.current_time() < 9


async def test_unprovable_holder_that_let_go_is_followed_when_its_claim_has_lapsed(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    scene.hold(scene.other, flock=False)
    scene.claim(scene.other, beat_ago_s=10)
    scene.people.unprovable = True
    await scene.acquire()
    assert scene.people.signals == []
    assert 20 <= trio.current_time() < 21


async def test_flock_free_of_a_holder_that_lives_is_not_enough(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    """Somebody has removed the file that it had locked."""
    scene.hold(scene.other, flock=False)
    scene.answer(say_hello)
    scene.claim(scene.other, beat_ago_s=1)
    assert "is already running" in await scene.refused()
    scene.answer(say_nothing)
    await scene.acquire()
    assert scene.people.signals == [(scene.other.identity, signal.SIGKILL)]


async def test_holder_whose_lock_files_were_removed_is_found_in_the_database(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    scene.claim(scene.other, beat_ago_s=600)
    scene.answer(say_hello)
    assert f"PID {scene.other.identity.pid}" in await scene.refused()
    scene.answer(say_nothing)
    assert (await scene.acquire()).predecessor == scene.other
    assert scene.people.signals == [(scene.other.identity, signal.SIGKILL)]


async def test_clock_set_back_does_not_keep_a_deaf_holder_alive(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    """A heartbeat of the future, and an expiry that no renewal may take back."""
    scene.hold(scene.other)
    scene.claim(scene.other, beat_ago_s=-3_600)
    await scene.acquire()
    assert scene.people.signals == [(scene.other.identity, signal.SIGKILL)]


async def test_killed_holder_that_does_not_end_is_reported(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    scene.hold(scene.other)
    scene.claim(scene.other, beat_ago_s=600)
    scene.people.survives = True
    with pytest.raises(ProcessesSurvived, match=f"PID {scene.other.identity.pid}"):
        await scene.acquire()
    assert END_WAIT_S <= trio.current_time() < END_WAIT_S + 2


async def test_holder_of_another_user_is_not_ours_to_end(
    autojump_clock: Clock, scene: "Scene"
) -> None:
    scene.hold(scene.other)
    scene.claim(scene.other, beat_ago_s=600)
    scene.people.protected = True
    await scene.refused()


async def test_cancelled_wait_leaves_the_lock(autojump_clock: Clock, scene: "Scene") -> None:
    scene.hold(scene.other, flock=False)
    scene.claim(scene.other, beat_ago_s=1)
    with trio.move_on_after(3):
        await scene.acquire()
    assert read_lock_file(scene.paths.lock) == scene.other
    assert scene.other_lock.try_acquire()
