"""Behaviour of the bounded mailbox."""

import pytest
import trio
import trio.testing

from runtime.errors import MailboxClosed, MailboxFull
from runtime.mailbox import Lane, Mailbox


async def test_ask_returns_the_reply(nursery: trio.Nursery) -> None:
    mailbox = Mailbox[int, str]()

    async def serve() -> None:
        with mailbox:
            while True:
                letter = await mailbox.take()
                letter.answer(f"got {letter.message}")

    nursery.start_soon(serve)
    assert await mailbox.ask(7) == "got 7"
    nursery.cancel_scope.cancel()


async def test_refusal_is_raised_at_the_asker(nursery: trio.Nursery) -> None:
    mailbox = Mailbox[int, str]()

    async def serve() -> None:
        (await mailbox.take()).refuse(LookupError("no"))

    nursery.start_soon(serve)
    with pytest.raises(LookupError):
        await mailbox.ask(1)


async def test_urgent_messages_are_taken_first_and_each_lane_keeps_its_order() -> None:
    mailbox = Mailbox[str, None]()
    for message in ("a", "b"):
        mailbox.tell_nowait(message)
    for message in ("renew", "cancel"):
        mailbox.tell_nowait(message, lane=Lane.URGENT)
    assert [letter.message for letter in mailbox.take_waiting(3)] == ["renew", "cancel", "a"]
    assert (await mailbox.take()).message == "b"
    assert mailbox.take_waiting(3) == []


async def test_full_normal_lane_does_not_hold_up_the_urgent_one() -> None:
    mailbox = Mailbox[int, None](capacity=1)
    mailbox.tell_nowait(1)
    with pytest.raises(MailboxFull):
        mailbox.tell_nowait(2)
    with trio.fail_after(120):
        await mailbox.tell(3, lane=Lane.URGENT)
    assert len(mailbox) == 2


async def test_senders_wait_for_room_in_their_order(nursery: trio.Nursery) -> None:
    mailbox = Mailbox[int, None](capacity=1)
    await mailbox.tell(0)
    for number in (1, 2, 3):
        nursery.start_soon(mailbox.tell, number)
        await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(MailboxFull):
        mailbox.tell_nowait(9)
    assert [(await mailbox.take()).message for _ in range(4)] == [0, 1, 2, 3]


async def test_cancelled_before_taken_is_withdrawn_and_gives_its_room_back() -> None:
    mailbox = Mailbox[int, None](capacity=1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.ask(1)
    assert scope.cancelled_caught

    async def ask_and_be_cancelled() -> None:
        with trio.CancelScope() as inner:
            scopes.append(inner)
            await mailbox.ask(2)

    scopes: list[trio.CancelScope] = []
    async with trio.open_nursery() as tasks:
        tasks.start_soon(ask_and_be_cancelled)
        await trio.testing.wait_all_tasks_blocked()
        assert len(mailbox) == 1
        scopes[0].cancel()
    assert len(mailbox) == 0
    mailbox.tell_nowait(3)
    assert (await mailbox.take()).message == 3


async def test_cancelled_after_taken_waits_for_the_outcome() -> None:
    mailbox = Mailbox[int, str]()
    replies: list[str] = []
    async with trio.open_nursery() as tasks:

        async def ask() -> None:
            replies.append(await mailbox.ask(1))

        tasks.start_soon(ask)
        letter = await mailbox.take()
        tasks.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            assert replies == []
            letter.answer("done anyway")
    assert replies == ["done anyway"]


async def test_an_actor_that_ends_leaves_no_asker_waiting() -> None:
    mailbox = Mailbox[int, None]()
    refused: list[int] = []

    async def ask(number: int) -> None:
        with pytest.raises(MailboxClosed):
            await mailbox.ask(number)
        refused.append(number)

    with trio.fail_after(120):
        async with trio.open_nursery() as tasks:
            with mailbox:
                for number in (1, 2):
                    tasks.start_soon(ask, number)
                await trio.testing.wait_all_tasks_blocked()
                assert len(mailbox.take_waiting(1)) == 1
    assert sorted(refused) == [1, 2]
    with pytest.raises(MailboxClosed):
        await mailbox.tell(3)
    with pytest.raises(MailboxClosed):
        await mailbox.take()


async def test_closing_leaves_what_was_taken_to_be_answered() -> None:
    mailbox = Mailbox[int, str]()
    replies: list[str] = []

    async def ask() -> None:
        replies.append(await mailbox.ask(1))

    with trio.fail_after(120):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(ask)
            with mailbox:
                letter = await mailbox.take()
                mailbox.close()
                letter.answer("committed")
    assert replies == ["committed"]


async def test_closing_with_a_refusal_gives_each_asker_its_own_error() -> None:
    mailbox = Mailbox[int, None](capacity=1)
    errors: list[BaseException] = []

    async def ask(number: int) -> None:
        try:
            await mailbox.ask(number)
        except ConnectionError as error:
            errors.append(error)

    async with trio.open_nursery() as tasks:
        for number in (1, 2, 3):
            tasks.start_soon(ask, number)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close(lambda: ConnectionError("unknown outcome"))
    assert len({id(error) for error in errors}) == 3


async def test_a_cancelled_take_loses_no_message() -> None:
    mailbox = Mailbox[int, None]()
    taken: list[int] = []

    async def take() -> None:
        taken.append((await mailbox.take()).message)

    async with trio.open_nursery() as tasks:
        tasks.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.tell_nowait(1)
        tasks.cancel_scope.cancel()
    assert len(taken) + len(mailbox) == 1
