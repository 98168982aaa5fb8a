"""A server is sent frames by the thousand, most of them fine, many of them not; it goes on.

`FRAMES` and `SEED` in the environment choose how many and which (`make fuzz`).
"""

import os
import sys
import time
from pathlib import Path
from typing import Final

from multiproc_tests.harness.frame_fuzzer import Connection, Fuzzer, Tally
from multiproc_tests.harness.home import Home
from multiproc_tests.harness.hostile_frames import canonical, request
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import open_channel

FRAMES: Final = int(os.environ.get("FRAMES", "2000"))
SEED: Final = int(os.environ.get("SEED", "1"))
WARM_UP: Final = min(4_000, FRAMES)
"""Frames after which caches are as full as they get."""

GROWTH_MIB_MAX: Final = 32
LOOKS_MAX: Final = 3_000


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def at_rest(witness: BlockingClient, pid: int, wanted: int) -> tuple[object, int]:
    """Ask until the server has let go of all other clients; return what it has then."""
    found: tuple[object, int] = (None, 0)
    for _ in range(LOOKS_MAX):
        found = witness.call("server.status").receipt["clients"], descriptors(pid)
        if found == (1, wanted):
            break
    return found


def told(tally: Tally, seconds: float) -> str:
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(tally.outcomes.items()))
    return (
        f"frames {tally.frames} (requests {tally.requests}, hostile {tally.hostile},"
        f" torn {tally.torn}) over {tally.connections} connections in {seconds:.0f} s,"
        f" {tally.frames / seconds:.0f}/s; seed {SEED}\n"
        f"answers: {outcomes}\n"
        f"closed by the server: {tally.ended}; left without reading: {tally.left_early}"
    )


def test_server_outlives_frames_of_every_kind_and_keeps_its_size(home: Home) -> None:
    """Each request is answered, each hostile line ends its own connection and no other.

    Two clients that never read are there all the time, and one that asks an ordinary question is
    answered throughout. In the end memory and descriptors are what they were.

    Case: C14, C15, C16.
    """
    server = home.servers.start()
    with BlockingClient(lambda: open_channel(home.paths.socket)) as witness:
        witness.call("server.status")
        open_before = descriptors(server.pid)
        deaf = [Connection(home.paths.socket) for _ in range(2)]
        unread = canonical(request({"operation": "run.list", "payload": {}})) * 2_000
        for connection in deaf:
            connection.send_unread(unread)
        fuzzer = Fuzzer(home.paths.socket)
        began_at = time.monotonic()
        fuzzer.fuzz(WARM_UP, SEED)
        memory_before = resident_mib(server.pid)
        left = FRAMES - fuzzer.tally.frames
        number = 0
        while left > 0:
            number += 1
            fuzzer.fuzz(min(left, 5_000), SEED + 1_000 * number)
            left = FRAMES - fuzzer.tally.frames
            assert witness.call("server.status").receipt["state"] == "ready"
        seconds = time.monotonic() - began_at
        memory_after = resident_mib(server.pid)
        for connection in deaf:
            connection.close()
        fuzzer.leave()
        clients, open_after = at_rest(witness, server.pid, open_before)
    sys.stdout.write(
        f"\n{told(fuzzer.tally, seconds)}\n"
        f"server: resident {memory_before:.1f} MiB after {WARM_UP} frames,"
        f" {memory_after:.1f} MiB in the end; descriptors {open_before} before,"
        f" {open_after} after\n"
    )
    assert server.is_alive, server.errors
    assert (clients, open_after) == (1, open_before)
    assert memory_after - memory_before < GROWTH_MIB_MAX
    assert fuzzer.tally.ended > 0
    home.assert_verified()
    assert home.listed() == []
