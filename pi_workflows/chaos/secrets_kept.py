"""Looks for the secrets of claims in all that somebody else could read."""

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path

from pi_workflows.chaos.invariants import InvariantBroken
from runtime.simulation.machine import Machine


def readable(machine: Machine, state_dir: Path) -> dict[str, bytes]:
    """Return all that others than its owner could read of a server, by what it is.

    Args:
        state_dir: the real folder of the database; it may not exist.
    """
    stored = [path for path in sorted(state_dir.glob("*")) if path.is_file()]
    return {
        **{path.name: path.read_bytes() for path in stored},
        "a small file": b"\n".join(machine.disk.files.values()),
        "a log or a connection": machine.trace.whole(),
        "last words": machine.last_words().encode(),
    }


def check_secrets(secrets: Iterable[bytes], readable: Mapping[str, bytes]) -> None:
    """Find no secret anywhere: a claim is proven by its secret, and stored as a digest of it.

    Args:
        secrets: what was drawn for them.
        readable: the content of files, logs and connections, by a name for reports.

    Raises:
        InvariantBroken: names where one stands; never the secret itself.
    """
    for secret in secrets:
        for form in (secret, base64.urlsafe_b64encode(secret).rstrip(b"=")):
            for place, content in readable.items():
                if form in content:
                    raise InvariantBroken(f"the secret of a claim stands in {place}", "P4")
