"""Who holds the server lock: information beside the lock, for people and for takeover."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pi_workflows.protocol.canonical import CanonicalError, canonical_bytes, parse_json
from runtime.errors import ForeignFile
from runtime.identity import ProcessIdentity
from runtime.machine_files import SYSTEM_FILES, MachineFiles

SCHEMA: Final = "pi-workflows.server-lock.v1"


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A server that holds, or held, the lock.

    Attributes:
        identity: Exactly which process.
        server_id: The id it took at its start.
    """

    identity: ProcessIdentity
    server_id: str


def read_lock_file(path: Path, files: MachineFiles = SYSTEM_FILES) -> LockHolder | None:
    """Return the holder the file names; None if there is no file.

    Raises:
        ForeignFile: It is torn, or does not hold what this version writes.
    """
    try:
        value = parse_json(files.read(path))
    except FileNotFoundError:
        return None
    except CanonicalError as error:
        raise _foreign(path) from error
    match value:
        case {
            "schema": str(schema),
            "pid": int(pid),
            "startIdentity": str(start),
            "serverId": str(server_id),
        } if schema == SCHEMA and pid > 1:
            return LockHolder(ProcessIdentity(pid, start), server_id)
        case _:
            raise _foreign(path)


def write_lock_file(path: Path, holder: LockHolder, files: MachineFiles = SYSTEM_FILES) -> None:
    """Name `holder` in the file, by rename, mode 0600."""
    content = {
        "schema": SCHEMA,
        "pid": holder.identity.pid,
        "startIdentity": holder.identity.start_identity,
        "serverId": holder.server_id,
    }
    files.replace(path, canonical_bytes(content) + b"\n")


def remove_lock_file(path: Path, holder: LockHolder, files: MachineFiles = SYSTEM_FILES) -> bool:
    """Remove the file if it still names `holder`; False if it is gone or names another."""
    try:
        if read_lock_file(path, files) != holder:
            return False
    except ForeignFile:
        return False
    files.remove(path)
    return True


def _foreign(path: Path) -> ForeignFile:
    return ForeignFile(
        f"{path} is not a server lock file of this version",
        hint="It is information only; the server replaces it once it holds the lock.",
    )
