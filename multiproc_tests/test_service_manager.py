"""`server run` under a service manager that waits for it, as systemd does."""

import json
import socket

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S, environment_of
from multiproc_tests.harness.servers import SERVER_RUN
from multiproc_tests.harness.workflows import COMPUTING, OUTPUT, STEPS, three


def test_server_says_ready_when_it_serves_gives_signs_of_life_and_says_stopping(
    home: Home,
) -> None:
    """Its children hear nothing of the service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(BOUND_S)
        manager.bind(str(home.folder / "notify"))
        settings = {"NOTIFY_SOCKET": str(home.folder / "notify"), "WATCHDOG_USEC": "400000"}
        server = home.servers.launch(SERVER_RUN, settings)
        assert manager.recv(64) == b"READY=1"
        assert json.loads(home.command("server", "status", "--json"))["pid"] == server.pid
        run_id = home.run(three(COMPUTING))
        node = home.meetings.arrive("second")
        names = {entry.partition(b"=")[0] for entry in environment_of(node.process.pid)}
        assert not names & {b"NOTIFY_SOCKET", b"WATCHDOG_USEC"}
        assert {manager.recv(64) for _ in range(3)} == {b"WATCHDOG=1"}
        node.go()
        home.assert_completed(run_id, STEPS, OUTPUT)
        server.stop()
        said = b"WATCHDOG=1"
        while said == b"WATCHDOG=1":
            said = manager.recv(64)
        assert said == b"STOPPING=1"


def test_server_started_on_demand_leaves_its_starters_service_manager_alone(home: Home) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(0)
        manager.bind(str(home.folder / "notify"))
        home.environment["NOTIFY_SOCKET"] = str(home.folder / "notify")
        pid = json.loads(home.command("server", "start", "--json"))["pid"]
        assert not any(entry.startswith(b"NOTIFY_SOCKET") for entry in environment_of(pid))
        home.command("server", "stop")
        try:
            heard = manager.recv(64)
        except BlockingIOError:
            heard = b""
        assert heard == b""
