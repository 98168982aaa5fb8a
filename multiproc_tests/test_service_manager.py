"""`server run` under a service manager that waits for it, as systemd does."""

import json
import socket
import threading
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S, environment_of
from multiproc_tests.harness.servers import SERVER_RUN
from multiproc_tests.harness.workflows import COMPUTING, OUTPUT, STEPS, three

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def manager(path: Path) -> "Iterator[SimpleQueue[bytes]]":
    """Listen like a service manager: at once, whatever the test is doing; few datagrams wait."""
    heard: SimpleQueue[bytes] = SimpleQueue()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))

        def listen() -> None:
            while said := listening.recv(64):
                heard.put(said)

        reader = threading.Thread(target=listen)
        reader.start()
        try:
            yield heard
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as leaving:
                leaving.sendto(b"", str(path))
            reader.join()


def test_server_says_ready_when_it_serves_gives_signs_of_life_and_says_stopping(
    home: Home,
) -> None:
    """Its children hear nothing of the service manager."""
    with manager(home.folder / "notify") as heard:
        settings = {"NOTIFY_SOCKET": str(home.folder / "notify"), "WATCHDOG_USEC": "400000"}
        server = home.servers.launch(SERVER_RUN, settings)
        assert heard.get(timeout=BOUND_S) == b"READY=1"
        assert json.loads(home.command("server", "status", "--json"))["pid"] == server.pid
        run_id = home.run(three(COMPUTING))
        node = home.meetings.arrive("second")
        names = {entry.partition(b"=")[0] for entry in environment_of(node.process.pid)}
        assert not names & {b"NOTIFY_SOCKET", b"WATCHDOG_USEC"}
        assert {heard.get(timeout=BOUND_S) for _ in range(3)} == {b"WATCHDOG=1"}
        node.go()
        home.assert_completed(run_id, STEPS, OUTPUT)
        server.stop()
        said = b"WATCHDOG=1"
        while said == b"WATCHDOG=1":
            said = heard.get(timeout=BOUND_S)
        assert said == b"STOPPING=1"


def test_server_started_on_demand_leaves_its_starters_service_manager_alone(home: Home) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(0)
        listening.bind(str(home.folder / "notify"))
        home.environment["NOTIFY_SOCKET"] = str(home.folder / "notify")
        pid = json.loads(home.command("server", "start", "--json"))["pid"]
        assert not any(entry.startswith(b"NOTIFY_SOCKET") for entry in environment_of(pid))
        home.command("server", "stop")
        try:
            heard = listening.recv(64)
        except BlockingIOError:
            heard = b""
        assert heard == b""
