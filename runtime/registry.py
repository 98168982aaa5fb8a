"""The children a server has started, on disk, so that its successor can end them."""

import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import trio

from pi_workflows.protocol.canonical import CanonicalError, canonical_bytes, parse_json
from runtime.errors import ForeignFile, ProcessesSurvived
from runtime.identity import Liveness, ProcessIdentity
from runtime.machine_files import SYSTEM_FILES, MachineFiles
from runtime.processes import ProcessTable
from runtime.session_end import END_WAIT_S, STUCK_HINT

SCHEMA: Final = "pi-workflows.process-registry.v1"


@dataclass(frozen=True, slots=True)
class RegisteredChild:
    """One child.

    Attributes:
        identity: Exactly which process.
        marker: By which its descendants are found in its session.
    """

    identity: ProcessIdentity
    marker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedChildren:
    """What a successor found and did.

    Attributes:
        ended: Children that were alive and are gone now.
        dropped: Children that were gone, or cannot be proven to be ours; the processes of the
            latter were left alone.
        fault: Why the file could not be used; None if it could, or there was none.
    """

    ended: tuple[RegisteredChild, ...]
    dropped: tuple[RegisteredChild, ...]
    fault: ForeignFile | None


@final
class ProcessRegistry:
    """The registry file, held by one server at a time."""

    def __init__(
        self, path: Path, processes: ProcessTable, files: MachineFiles = SYSTEM_FILES
    ) -> None:
        """Use the file at `path`, whose directory exists; nothing is read yet."""
        self._path = path
        self._files = files
        self._processes = processes
        self._children: dict[ProcessIdentity, RegisteredChild] = {}

    def add(self, identity: ProcessIdentity, marker: str) -> None:
        """Remember a child; on disk when this returns.

        Raises:
            OSError: The file cannot be written; the child is not remembered.
        """
        children = {**self._children, identity: RegisteredChild(identity, marker)}
        self._write(children.values())
        self._children = children

    def remove(self, identity: ProcessIdentity) -> None:
        """Forget a child that has ended; does nothing if it is unknown.

        Raises:
            OSError: The file cannot be written; the child is still remembered.
        """
        if identity in self._children:
            children = {k: v for k, v in self._children.items() if k != identity}
            self._write(children.values())
            self._children = children

    async def end(self, identity: ProcessIdentity) -> None:
        """End a process that was added and is no child of this server, with its session.

        Shielded. It is forgotten when nothing of it is left.

        Raises:
            ProcessesSurvived: Something did not end in time; it is still remembered.
            OSError: The file cannot be written.
        """
        registered = self._children.get(identity)
        if registered is not None:
            with trio.CancelScope(shield=True):
                await self._end(registered)
            self.remove(identity)

    def children(self) -> tuple[RegisteredChild, ...]:
        """Return the children this server has added and not removed, oldest first."""
        return tuple(self._children.values())

    async def end_registered(self) -> EndedChildren:
        """End what a previous server left behind, then start with an empty file.

        Kills each process that is exactly the registered one and everything in its session; when
        the process itself has been reaped, what is provably of its session by its marker. An
        unusable file is set aside under the suffix `.unusable` and reported. Called once, before
        the first `add`.

        Raises:
            ProcessesSurvived: Something did not end in time; the file is unchanged.
        """
        fault = None
        found: tuple[RegisteredChild, ...] = ()
        try:
            found = read_registry(self._path, self._files)
        except ForeignFile as error:
            fault = error
            self._files.rename(self._path, self._path.with_name(self._path.name + ".unusable"))
        # Newest first: a runner template comes after its children, whose numbers it holds.
        were_alive = {child for child in reversed(found) if await self._end(child)}
        ended = tuple(child for child in found if child in were_alive)
        self._write(())
        dropped = tuple(child for child in found if child not in ended)
        return EndedChildren(ended=ended, dropped=dropped, fault=fault)

    async def _end(self, child: RegisteredChild) -> bool:
        """End the session first: while its leader is there, all of it is provably ours.

        The leader stands still meanwhile, so that it starts nothing more. It is killed last, and
        not at all if something of its session survives: then it is the proof for the next start.
        """
        if self._processes.is_alive(child.identity) is Liveness.UNPROVABLE:
            return False
        was_alive = self._processes.signal_exactly(child.identity, signal.SIGSTOP)
        await self._processes.end_session(child.identity, child.marker, within_s=END_WAIT_S)
        self._processes.signal_exactly(child.identity, signal.SIGKILL)
        with trio.move_on_after(END_WAIT_S, shield=True):
            await self._processes.wait_gone(child.identity)
            return was_alive
        raise ProcessesSurvived(
            f"process {child.identity.pid} did not end within {END_WAIT_S:g} s of SIGKILL",
            hint=STUCK_HINT,
        )

    def _write(self, children: Iterable[RegisteredChild]) -> None:
        entries = [
            {
                "pid": child.identity.pid,
                "startIdentity": child.identity.start_identity,
                "marker": child.marker,
            }
            for child in children
        ]
        content = canonical_bytes({"schema": SCHEMA, "children": entries})
        self._files.replace(self._path, content + b"\n")


def read_registry(path: Path, files: MachineFiles = SYSTEM_FILES) -> tuple[RegisteredChild, ...]:
    """Return the children in the file, oldest first; none if there is no file.

    Raises:
        ForeignFile: It is torn, or does not hold what this version writes.
    """
    try:
        value = parse_json(files.read(path))
    except FileNotFoundError:
        return ()
    except CanonicalError as error:
        raise _foreign(path) from error
    match value:
        case {"schema": str(schema), "children": list(entries)} if schema == SCHEMA:
            return tuple(_child(path, entry) for entry in entries)
        case _:
            raise _foreign(path)


def _child(path: Path, entry: object) -> RegisteredChild:
    match entry:
        # Signalling process 1, 0 or a negative "process" would reach init or whole groups.
        case {"pid": int(pid), "startIdentity": str(start), "marker": str(marker)} if pid > 1:
            return RegisteredChild(ProcessIdentity(pid, start), marker)
        case _:
            raise _foreign(path)


def _foreign(path: Path) -> ForeignFile:
    return ForeignFile(
        f"{path} is not a process registry of this version",
        hint="Children of an earlier server may still run; end them by hand.",
    )
