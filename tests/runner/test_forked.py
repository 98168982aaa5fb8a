"""Handing a request to a process that was forked ahead."""

import os
import socket
from collections.abc import Sequence

import pytest

from pi_workflows.protocol.template import Fork
from pi_workflows.runner.forked import hand_over

REQUEST = Fork("pi_workflows.runner", "/", {}, "child-5f0c")


def test_spare_that_has_taken_its_request_and_closed_its_end_is_not_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else another child would be started for the same request while it begins to work."""
    ours, theirs = socket.socketpair()
    send = socket.send_fds

    def send_and_be_taken(
        control: socket.socket, buffers: Sequence[bytes], descriptors: Sequence[int]
    ) -> int:
        sent = send(control, list(buffers), list(descriptors))
        _, taken, _, _ = socket.recv_fds(theirs, 65_536, 1)
        for descriptor in taken:
            os.close(descriptor)
        theirs.close()
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_be_taken)
    with ours:
        hand_over(ours, REQUEST, [ours.fileno()])


def test_spare_that_is_gone_is_told_of() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(OSError, match="Broken pipe"):
        hand_over(ours, REQUEST, [ours.fileno()])
