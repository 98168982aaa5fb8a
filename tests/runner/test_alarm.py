"""What wakes the thread that watches."""

import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from pi_workflows.runner.alarm import Alarm
from pi_workflows.runner.connection import ChannelLost

Ends = tuple[socket.socket, Alarm]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        alarm = Alarm(theirs.fileno())
        yield ours, alarm
        alarm.close()


def test_bytes_that_wait_in_the_stream_wake_nobody_and_its_end_does(ends: Ends) -> None:
    ours, alarm = ends
    ours.sendall(b"unread")
    assert alarm.sleep(time.monotonic() + 0.002) == b""
    ours.close()
    with pytest.raises(ChannelLost, match="closed the stream"):
        alarm.sleep(None)


def test_a_poke_before_the_sleep_is_not_lost(ends: Ends) -> None:
    _, alarm = ends
    alarm.wake()
    assert alarm.sleep(None) == b"\0"


def test_a_full_pipe_still_wakes(ends: Ends) -> None:
    _, alarm = ends
    for _ in range(70_000):
        alarm.wake()
    alarm.wake(bytes([signal.SIGTERM]))
    assert alarm.sleep(None)


def test_an_instant_that_has_passed_ends_the_sleep_at_once(ends: Ends) -> None:
    _, alarm = ends
    assert alarm.sleep(0.0) == b""


def test_a_closed_descriptor_ends_the_watch_and_not_only_the_sleep(ends: Ends) -> None:
    ours, alarm = ends
    os.close(os.dup(ours.fileno()))  # Closing another descriptor of the stream changes nothing.
    assert alarm.sleep(0.0) == b""
    broken = Alarm(ours.fileno())
    ours.close()
    with pytest.raises(ChannelLost):
        broken.sleep(None)
    broken.close()
