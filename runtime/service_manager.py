"""What the server tells the service manager that has started it: ready, alive, stopping.

The protocol of sd_notify(3): one datagram per message to the socket that `NOTIFY_SOCKET` names, a
path or an abstract name. Nothing here ever fails the server or waits: a message that cannot be
delivered is lost, and the service manager draws its own conclusions.

Source: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import socket
from collections.abc import Mapping
from typing import Final, Protocol, final

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE: Final = "WATCHDOG_PID"


class ServiceManager(Protocol):
    """Who wants to know how the server is."""

    @property
    def watchdog_s(self) -> float | None:
        """How long it waits for the next sign of life, in seconds; None: it wants none."""
        ...

    def ready(self) -> bool:
        """Say that the server serves; False if that was not delivered."""
        ...

    def alive(self) -> bool:
        """Give a sign of life, where one is wanted; False if it was not delivered."""
        ...

    def stopping(self) -> bool:
        """Say that the server has begun to end; False if that was not delivered."""
        ...


@final
class NoServiceManager:
    """Nobody: the server was started by hand, or by a client."""

    watchdog_s: None = None

    def ready(self) -> bool:
        """Do nothing."""
        return True

    def alive(self) -> bool:
        """Do nothing."""
        return True

    def stopping(self) -> bool:
        """Do nothing."""
        return True


@final
class NotifySocket:
    """systemd, or whoever speaks its protocol."""

    def __init__(self, address: str, watchdog_s: float | None) -> None:
        """Send to `address`, whose first character is `/`, or `@` for an abstract name."""
        self._address: Final = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_s: Final = watchdog_s

    @property
    def watchdog_s(self) -> float | None:
        """How long it waits for the next sign of life."""
        return self._watchdog_s

    def ready(self) -> bool:
        """Send `READY=1`."""
        return self._send(b"READY=1")

    def alive(self) -> bool:
        """Send `WATCHDOG=1` if the watchdog is on."""
        return self._watchdog_s is None or self._send(b"WATCHDOG=1")

    def stopping(self) -> bool:
        """Send `STOPPING=1`."""
        return self._send(b"STOPPING=1")

    def _send(self, message: bytes) -> bool:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.settimeout(0)
                sending.sendto(message, self._address)
        except (OSError, ValueError):
            return False
        return True


def service_manager_of(environment: Mapping[str, str], own_pid: int) -> ServiceManager:
    """Return who is named in the environment of this process.

    Addresses of another kind than a Unix socket name nobody, and a watchdog that watches another
    process or for no positive time is none.
    """
    address = environment.get(SOCKET_VARIABLE, "")
    if address[:1] not in {"/", "@"} or len(address) == 1:
        return NoServiceManager()
    return NotifySocket(address, _watchdog_s(environment, own_pid))


def _watchdog_s(environment: Mapping[str, str], own_pid: int) -> float | None:
    watched = environment.get(WATCHDOG_PID_VARIABLE, str(own_pid))
    text = environment.get(WATCHDOG_VARIABLE, "")
    if watched != str(own_pid) or not text.isascii() or not text.isdigit():
        return None
    return int(text) / 1_000_000 or None
