"""Processes that a runner has started outside its session: known, and ended when it ends.

What stays in the runner's session needs none of this. Registered ones stand in the registry file
beside the runners, with their exact identity, so that the next server ends them after a crash.
"""

from typing import Final

from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject
from runtime.errors import RuntimeFault
from runtime.identity import ProcessIdentity
from store import leases
from store.authority import Claim

REGISTERED_MAX: Final = 16
"""Of one runner, at a time."""


class ProcessRefused(Exception):
    """A process cannot be registered; the text says why."""


class RunnerProcesses:
    """The outside processes of one runner."""

    def __init__(self, services: Services, claim: Claim) -> None:
        self._services: Final = services
        self._claim: Final = claim
        self._log: Final = services.log.bind("runner_processes")
        self._registered: Final[dict[int, ProcessIdentity]] = {}

    async def register(self, runner: ProcessIdentity, marker: str, payload: JsonObject) -> None:
        """Remember a process of the runner's own; on disk when this returns.

        Args:
            runner: its parent has to be exactly this process.
            marker: what the runner was given in its environment.
            payload: `{"pid"}`.

        Raises:
            ClaimLostError: the run is not this server's any more.
            ProcessRefused: it is no child of the runner, leads no process group, or is held by
                somebody already; or the file cannot be written.
        """
        pid = _pid(payload)
        await self._services.store.insist(lambda tx: leases.renew_claim(tx, self._claim))
        if len(self._registered) >= REGISTERED_MAX:
            raise ProcessRefused(f"a runner registers at most {REGISTERED_MAX} processes")
        found = self._services.world.processes.leader_started_by(runner, pid)
        if found is None:
            raise ProcessRefused("pid is no child of this runner that leads a process group")
        processes = self._services.processes
        if any(child.identity == found for child in processes.children()):
            raise ProcessRefused("this process is registered already")
        try:
            processes.add(found, marker)
        except OSError as error:
            raise ProcessRefused(f"the registry cannot be written: {error.strerror}") from error
        self._registered[pid] = found

    def unregister(self, payload: JsonObject) -> None:
        """Forget a process that has ended, or is to live on; needs no claim.

        Raises:
            ProcessRefused: it is not registered by this runner, or the file cannot be written.
        """
        pid = _pid(payload)
        found = self._registered.get(pid)
        if found is None:
            raise ProcessRefused("this runner has not registered pid")
        try:
            self._services.processes.remove(found)
        except OSError as error:
            raise ProcessRefused(f"the registry cannot be written: {error.strerror}") from error
        del self._registered[pid]

    async def end_all(self) -> None:
        """End what is still registered, with its sessions; the runner has ended.

        What survives SIGKILL is logged and stays in the registry, for the next server.
        """
        for identity in self._registered.values():
            try:
                await self._services.processes.end(identity)
            except (RuntimeFault, OSError) as fault:
                self._log.error("processes_survived", error=str(fault))
        self._registered.clear()


def _pid(payload: JsonObject) -> int:
    pid = payload.get("pid")
    if payload.keys() != {"pid"} or type(pid) is not int or not 1 < pid < 1 << 31:
        raise ProcessRefused("a process is registered by its id alone, a number above 1")
    return pid
