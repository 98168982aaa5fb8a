"""The large bodies of one runner: parts that come in are staged, parts that go out are cut.

Bytes wait in private files without a name; hashing, copying and the base64 of a part run in the
commit executor, so that the loop carries frames only. What a runner may read is what it was told
of in this conversation, and nothing else.
"""

import codecs
import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.content import (
    PART_BYTES_MAX,
    ContentInvalid,
    ContentReference,
    decode_part,
    encode_part,
)
from runtime.scratch_file import ScratchFile
from store.contents import StagedContent, copy_out
from store.errors import StoreCorrupt

STAGED_MAX: Final = 4
"""Bodies of a runner that wait for their message; one step has two, an output and a receipt."""

_WRITE_FIELDS: Final = frozenset({"sha256", "bytes", "mediaType", "offset", "data"})
_READ_FIELDS: Final = frozenset({"sha256", "offset"})


@dataclass(slots=True)
class _Incoming:
    """A body of which some parts have come."""

    reference: ContentReference
    file: ScratchFile
    received: int = 0
    hashing: Any = field(default_factory=hashlib.sha256)
    text: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))

    def take(self, reference: ContentReference, offset: JsonValue, encoded: JsonValue) -> None:
        """Add the next part; off the loop.

        Raises:
            ContentInvalid: it is not the next part of this body, no base64, too long, no UTF-8, or
                completes another body than was announced.
            OSError: the disk is full or failing.
        """
        if reference != self.reference:
            raise ContentInvalid("bytes is not what the first part has announced")
        if type(offset) is not int or offset != self.received:
            raise ContentInvalid("offset is not where the last part has ended")
        data = decode_part(encoded)
        received = self.received + len(data)
        if received > self.reference.byte_length:
            raise ContentInvalid("more bytes than were announced")
        is_last = received == self.reference.byte_length
        try:
            self.text.decode(data, final=is_last)
        except UnicodeDecodeError as error:
            raise ContentInvalid("the content is not UTF-8") from error
        self.hashing.update(data)
        if is_last and self.hashing.hexdigest() != self.reference.sha256:
            raise ContentInvalid("the content has another digest than was announced")
        self.file.append(data)
        self.received = received


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A body that is being read, copied out of the database."""

    sha256: str
    file: ScratchFile


class RunnerContents:
    """Bodies on their way between one runner and the store; `close` frees them."""

    def __init__(self, services: Services) -> None:
        self._services: Final = services
        self._incoming: Final[dict[str, _Incoming]] = {}
        self._offered: Final[dict[str, ContentReference]] = {}
        self._outgoing: _Outgoing | None = None

    def offer(self, reference: ContentReference) -> JsonObject:
        """Let the runner read a stored body; return the reference for the message."""
        self._offered[reference.sha256] = reference
        return reference.to_json()

    def staged(self, value: JsonValue) -> StagedContent:
        """Return the body that a message refers to.

        Raises:
            ContentInvalid: no such body has been written, or not all of it.
        """
        reference = ContentReference.parse(value)
        incoming = self._incoming.get(reference.sha256)
        if incoming is None or incoming.reference != reference:
            raise ContentInvalid("no content of this digest and length has been written")
        if incoming.received != reference.byte_length:
            raise ContentInvalid("the content has not been written to its end")
        return StagedContent(bytes.fromhex(reference.sha256), reference.byte_length, incoming.file)

    async def write(self, payload: JsonObject) -> JsonObject:
        """Take one part; parts come in order from offset 0. Return `{"received"}`.

        After a refusal the body begins anew.

        Raises:
            ContentInvalid: a field is malformed or the part is not the next one.
        """
        if payload.keys() != _WRITE_FIELDS:
            raise ContentInvalid(f"content.write has the fields {sorted(_WRITE_FIELDS)}")
        reference = ContentReference.parse(payload)
        incoming = self._incoming.get(reference.sha256) or self._begin(reference)
        take = partial(incoming.take, reference, payload["offset"], payload["data"])
        try:
            await self._services.world.commits.run(take)
        except OSError as error:
            await self._drop(incoming)
            raise _not_kept(error) from error
        except BaseException:
            await self._drop(incoming)
            raise
        return {"received": incoming.received}

    async def read(self, payload: JsonObject) -> JsonObject:
        """Return one part of an offered body: `{"data", "bytes", "nextOffset"}`.

        Raises:
            ContentInvalid: it was not offered, is missing, or ends before the offset.
        """
        if payload.keys() != _READ_FIELDS:
            raise ContentInvalid(f"content.read has the fields {sorted(_READ_FIELDS)}")
        sha256, offset = payload["sha256"], payload["offset"]
        reference = self._offered.get(sha256) if isinstance(sha256, str) else None
        if reference is None:
            raise ContentInvalid("no content of this digest was offered to this runner")
        if type(offset) is not int or not 0 <= offset < reference.byte_length:
            raise ContentInvalid("offset is not within the content")
        try:
            file = await self._copied_out(reference)
            read = partial(file.read, offset, PART_BYTES_MAX)
            data = await self._services.world.commits.run(lambda: encode_part(read()))
        except OSError as error:
            raise _not_kept(error) from error
        except StoreCorrupt as error:
            raise ContentInvalid("the content is missing") from error
        following = offset + PART_BYTES_MAX
        return {
            "data": data,
            "bytes": reference.byte_length,
            "nextOffset": following if following < reference.byte_length else None,
        }

    async def forget_staged(self) -> None:
        """Free what was staged: its message has been answered."""
        files = [incoming.file for incoming in self._incoming.values()]
        self._incoming.clear()
        await self._free(files)

    async def close(self) -> None:
        """Free everything; the conversation is over."""
        await self.forget_staged()
        await self._close_outgoing()

    async def _free(self, files: list[ScratchFile]) -> None:
        """Close files off the loop: with its last descriptor a file gives its pages back."""
        if files:
            await self._services.world.commits.run(partial(_close_all, files))

    def _begin(self, reference: ContentReference) -> _Incoming:
        if len(self._incoming) >= STAGED_MAX:
            raise ContentInvalid(f"more than {STAGED_MAX} contents wait for their message")
        incoming = _Incoming(reference, self._new_file())
        self._incoming[reference.sha256] = incoming
        return incoming

    def _new_file(self) -> ScratchFile:
        try:
            return self._services.world.files.scratch(self._services.paths.host_dir)
        except OSError as error:
            raise _not_kept(error) from error

    async def _drop(self, incoming: _Incoming) -> None:
        self._incoming.pop(incoming.reference.sha256, None)
        await self._free([incoming.file])

    async def _copied_out(self, reference: ContentReference) -> ScratchFile:
        """Copy a body out of the database once, for all its parts."""
        if self._outgoing is not None and self._outgoing.sha256 == reference.sha256:
            return self._outgoing.file
        await self._close_outgoing()
        file = self._new_file()
        try:
            blob_hash = bytes.fromhex(reference.sha256)
            await self._services.store.do_long(lambda tx: copy_out(tx, blob_hash, file))
        except BaseException:
            await self._free([file])
            raise
        self._outgoing = _Outgoing(reference.sha256, file)
        return file

    async def _close_outgoing(self) -> None:
        if self._outgoing is not None:
            outgoing, self._outgoing = self._outgoing, None
            await self._free([outgoing.file])


def _close_all(files: list[ScratchFile]) -> None:
    for file in files:
        file.close()


def _not_kept(error: OSError) -> ContentInvalid:
    return ContentInvalid(f"the server cannot keep the content: {error.strerror}")
