"""Behaviour of a real server towards a thousand connections at once."""

import os
import resource
import socket
import sys
from pathlib import Path
from typing import Final

from multiproc_tests.harness.database import ORDER
from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S
from multiproc_tests.harness.workflows import OUTPUT, SHELLING, STEPS, three

CONNECTIONS: Final = 1_000
SERVED: Final = 64
GROWTH_MIB_MAX: Final = 32


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))  # Waits while the server's queue is full.
    connection.settimeout(BOUND_S)
    return connection


def is_greeted(connection: socket.socket) -> bool:
    try:
        return connection.recv(4_096).startswith(b'{"connectionId"')
    except ConnectionResetError:
        return False


def test_thousand_connections_of_one_process_do_not_keep_a_run_from_its_end(home: Home) -> None:
    """Its share is served, more are let go; commands of other processes and runs go on."""
    server = home.servers.start()
    run_id = home.run(three(SHELLING))
    before = resident_mib(server.pid)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(CONNECTIONS + 200, hard), hard))
    connections = [connect(home.paths.socket) for _ in range(CONNECTIONS)]
    try:
        greeted = [is_greeted(connection) for connection in connections]
        assert greeted.count(True) >= SERVED
        assert all(greeted[:SERVED])
        home.meetings.arrive("second").go()
        home.command("watch", run_id)
        assert home.show(run_id)["finalOutput"] == OUTPUT
        after = resident_mib(server.pid)
        sys.stdout.write(f"resident {before:.1f} MiB, with them {after:.1f} MiB\n")
        assert after - before < GROWTH_MIB_MAX
    finally:
        for connection in connections:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert home.database.column(ORDER, run_id) == STEPS
    home.assert_verified()
