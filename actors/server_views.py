"""What clients may read: bounded, consistent, and without a trace in the database."""

import base64
from collections import OrderedDict
from typing import Final

from actors.client_requests import PayloadInvalid, RunList
from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject, canonical_bytes, digest_hex
from pi_workflows.protocol.states import DisplayStatus
from pi_workflows.protocol.timestamps import rfc3339
from pi_workflows.protocol.version import PACKAGE_VERSION
from store import projection, run_lists, server_counts

INLINE_BYTES_MAX: Final = 262_144
"""A larger document is offered in parts."""

CHUNK_BYTES: Final = 196_608
DOCUMENTS_KEPT: Final = 16
DOCUMENT_BYTES_KEPT: Final = 64 * 1024 * 1024


class ServerViews:
    """Reads for clients."""

    def __init__(self, services: Services) -> None:
        self._services: Final = services
        self._documents: Final[OrderedDict[str, bytes]] = OrderedDict()
        self.clients = 0
        self.state = "ready"

    def run_state(self, run_id: str) -> JsonObject:
        """Return `{state}`, or `{content}` when the state is to be read in parts.

        Raises:
            RunUnknownError: no such run.
        """
        with self._services.readers.reading() as reading:
            state = projection.run_state(reading, run_id)
        document = canonical_bytes(state)
        if len(document) <= INLINE_BYTES_MAX:
            return {"state": state}
        return {"content": self._offer(document)}

    def content(self, path: str, offset: int) -> JsonObject | None:
        """Return one part of an offered document; None when it is not (or no longer) offered."""
        document = self._documents.get(path)
        if document is None or offset > len(document):
            return None
        chunk = document[offset : offset + CHUNK_BYTES]
        following = offset + len(chunk)
        complete = following >= len(document)
        return {
            "data": base64.b64encode(chunk).decode(),
            "bytes": len(document),
            "sha256": digest_hex(document),
            "mediaType": "application/json",
            "nextOffset": None if complete else following,
            "complete": complete,
        }

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

    def _offer(self, document: bytes) -> JsonObject:
        """Keep a document for a while; equal ones share an address, the oldest go first."""
        sha256 = digest_hex(document)
        path = f"artifacts/sha256/{sha256}.json"
        self._documents[path] = document
        self._documents.move_to_end(path)
        while len(self._documents) > 1 and (
            len(self._documents) > DOCUMENTS_KEPT
            or sum(map(len, self._documents.values())) > DOCUMENT_BYTES_KEPT
        ):
            self._documents.popitem(last=False)
        return {
            "path": path,
            "bytes": len(document),
            "sha256": sha256,
            "mediaType": "application/json",
        }
