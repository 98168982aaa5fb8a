"""What a service manager is told, over real datagram sockets."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.service_manager import NoServiceManager, NotifySocket, service_manager_of

OWN = 4711


@pytest.fixture(params=["path", "abstract"])
def listening(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[socket.socket, str]]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@pw-{os.getpid()}-notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(name.replace("@", "\0"))
        heard.settimeout(0)
        yield heard, name


def test_service_manager_is_told_that_the_server_is_ready_alive_and_stopping(
    listening: tuple[socket.socket, str],
) -> None:
    heard, name = listening
    manager = service_manager_of({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "30000000"}, OWN)
    assert manager.watchdog_s == 30
    assert (manager.ready(), manager.alive(), manager.stopping()) == (True, True, True)
    assert [heard.recv(64) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]


def test_without_a_watchdog_no_sign_of_life_is_sent(
    listening: tuple[socket.socket, str],
) -> None:
    heard, name = listening
    manager = service_manager_of({"NOTIFY_SOCKET": name}, OWN)
    assert manager.watchdog_s is None
    assert manager.alive()
    with pytest.raises(BlockingIOError):
        heard.recv(64)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"WATCHDOG_USEC": "1500000"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "4711"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "4712"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": ""}, None),
    ],
)
def test_watchdog_of_this_process_and_for_a_positive_time_counts(
    settings: dict[str, str], wanted: float | None
) -> None:
    assert service_manager_of({"NOTIFY_SOCKET": "/x", **settings}, OWN).watchdog_s == wanted


@pytest.mark.parametrize("address", [None, "", "/", "@", "vsock:2:1234", "relative"])
def test_where_no_unix_socket_is_named_nobody_is_told(address: str | None) -> None:
    settings = {"WATCHDOG_USEC": "1000000"}
    manager = service_manager_of(
        settings if address is None else {**settings, "NOTIFY_SOCKET": address}, OWN
    )
    assert isinstance(manager, NoServiceManager)
    assert manager.watchdog_s is None
    assert (manager.ready(), manager.alive(), manager.stopping()) == (True, True, True)


def test_nobody_at_the_address_is_no_error(tmp_path: Path) -> None:
    """Nor is a full queue, nor an address that is too long or no address at all."""
    for address in (str(tmp_path / "nobody"), "/" + "x" * 200, "/a\0b", str(tmp_path)):
        manager = NotifySocket(address, 1.0)
        assert (manager.ready(), manager.alive(), manager.stopping()) == (False, False, False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
        full.bind(str(tmp_path / "full"))
        manager = NotifySocket(str(tmp_path / "full"), None)
        sent = [manager.ready() for _ in range(10_000)]
        assert sent[0]
        assert not sent[-1]
