"""What clients may read: bounded, consistent, and without a trace in the database."""

from typing import Final

from actors.client_requests import PayloadInvalid, RunList
from actors.documents import Document, Documents
from actors.heavy_reads import HeavyReads
from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject, canonical_bytes, digest_hex
from pi_workflows.protocol.states import DisplayStatus
from pi_workflows.protocol.timestamps import rfc3339
from pi_workflows.protocol.version import PACKAGE_VERSION
from store import projection, projection_weight, run_lists, server_counts

INLINE_BYTES_MAX: Final = 262_144
"""A larger document is offered in parts."""


class ServerViews:
    """Reads for clients; `forget_unused` must run beside them."""

    def __init__(self, services: Services) -> None:
        self._services: Final = services
        self._documents: Final = Documents()
        # Not the turn of whole-file reads: a state is not to wait for a verification.
        self._heavy: Final = HeavyReads(services)
        self.clients = 0
        self.state = "ready"

    async def run_state(self, run_id: str) -> JsonObject:
        """Return `{state}`, or `{content}` when the state is to be read in parts.

        What would keep the loop busy is built by a child.

        Raises:
            RunUnknownError: no such run.
            ReadFailed: the child has no answer.
        """
        with self._services.readers.reading() as reading:
            state = None
            if projection_weight.is_light(reading, run_id):
                state = projection.run_state(reading, run_id)
        if state is None:
            return {"content": self._documents.offer(run_id, await self._heavy.run_state(run_id))}
        content = canonical_bytes(state)
        if len(content) <= INLINE_BYTES_MAX:
            return {"state": state}
        return {"content": self._documents.offer(run_id, Document(content, digest_hex(content)))}

    def content(self, run_id: str, path: str, offset: int) -> JsonObject | None:
        """Return one part of an offered document; None when it is not (or no longer) offered."""
        return self._documents.part(run_id, path, offset)

    async def forget_unused(self) -> None:
        """Drop offered documents that nobody reads any more, until cancelled."""
        await self._documents.forget_unused()

    def run_list(self, wanted: RunList) -> JsonObject:
        """Return one page of runs, newest first.

        Raises:
            PayloadInvalid: the status is no display status.
        """
        try:
            status = DisplayStatus(wanted.status) if wanted.status is not None else None
        except ValueError:
            known = ", ".join(status.value for status in DisplayStatus)
            raise PayloadInvalid(f"status is none of {known}") from None
        with self._services.readers.reading() as reading:
            return run_lists.page(
                reading,
                limit=wanted.limit,
                cursor=wanted.cursor,
                status=status,
                project_path=wanted.project_path,
            )

    def server_status(self) -> JsonObject:
        """Return who serves and how much there is to do: no ids of people, no project paths."""
        services = self._services
        identity = services.identity
        with services.readers.reading() as reading:
            counts = server_counts.counts(reading)
        return {
            "state": self.state,
            "pid": identity.pid,
            "epoch": identity.epoch,
            "serverId": identity.server_id,
            "socket": str(services.paths.socket),
            "startedAt": rfc3339(identity.started_at),
            "packageVersion": PACKAGE_VERSION,
            "clients": self.clients,
            "activeRunners": services.claims.count,
            "capacity": services.capacity,
            **counts,
        }
