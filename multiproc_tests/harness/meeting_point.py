"""The node's side of a meeting: note that it runs, say where it is, wait for the test.

The test copies this file beside its workflow file, from where a runner imports it; a shell node
runs it as a program. Standard library only. A node never waits longer than its test lives: when
the test has left, the node fails.
"""

import fcntl
import json
import os
import socket
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SOCKET = FOLDER / "meet"
NOTES = FOLDER / "notes"
LOCKS = FOLDER / "locks"
GO = b"g"
PATIENCE_S = 240.0


def note(text: str) -> None:
    """Append a line to the notes, the count of what really ran."""
    descriptor = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def meet(place: str, **facts: object) -> str:
    """Say that this process is at `place`, wait until the test lets it go on, return `place`.

    Notes `<place> began` and `<place> ended`. Meanwhile a lock that ends with the process proves
    that nobody else is at the same place; `alone` tells the test whether it was had.
    """
    note(f"{place} began")
    LOCKS.mkdir(exist_ok=True)
    with (LOCKS / place).open("w") as lock, socket.socket(socket.AF_UNIX) as test:
        here = {"place": place, "pid": os.getpid(), "session": os.getsid(0)}
        here |= {"parent": os.getppid(), **facts}
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            here["alone"] = True
        except BlockingIOError:
            here["alone"] = False
        test.settimeout(PATIENCE_S)
        test.connect(str(SOCKET))
        test.sendall(json.dumps(here).encode() + b"\n")
        if test.recv(1) != GO:
            raise RuntimeError("the test has left")
    note(f"{place} ended")
    return place


def shell_meeting(place: str, **facts: object) -> dict[str, object]:
    """Return the arguments of a `Command`: a shell whose child meets the test at `place`."""
    return {
        "command": '"$@"; code=$?; exit $code',
        "args": ["sh", sys.executable, "-ISB", __file__, place, json.dumps(facts)],
        "shell": True,
    }


if __name__ == "__main__":
    print(meet(sys.argv[1], **json.loads(sys.argv[2])))  # noqa: T201 - the command's output
