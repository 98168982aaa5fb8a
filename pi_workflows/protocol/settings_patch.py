"""Patches of settings (RFC 6902): their form, their bounds, and what an actor may do with them.

Each operation is authorised against the document as it then stands, by our own code; the library
`jsonpatch` carries it out. What is refused changes nothing: the document that was given is never
touched.

Source: RFC 6902 (JSON Patch) and RFC 6901 (JSON Pointer).
"""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pi_workflows.protocol.canonical import CanonicalError, JsonValue, canonical_bytes
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.settings_rules import (
    SETTINGS_BYTES_MAX,
    Permission,
    PointerInvalid,
    SettingsRules,
    Tokens,
    pointer_tokens,
)
from pi_workflows.protocol.states import ActorType

OPERATIONS_MAX: Final = 256
"""Most operations of one patch."""

PATCH_BYTES_MAX: Final = 65_536
"""Largest patch, in bytes of its canonical JSON."""

GROWTH_BYTES_MAX: Final = 4 * SETTINGS_BYTES_MAX
"""Most bytes that a document has together with all that a patch copies inside of it: 256 copies
of a whole into its own part would otherwise double it 256 times before the result is measured."""

_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "add": frozenset({"op", "path", "value"}),
    "remove": frozenset({"op", "path"}),
    "replace": frozenset({"op", "path", "value"}),
    "move": frozenset({"op", "from", "path"}),
    "copy": frozenset({"op", "from", "path"}),
    "test": frozenset({"op", "path", "value"}),
}
_INDEX: Final = re.compile(r"0|[1-9][0-9]*")
_END: Final = "-"
_SHOWN_CHARS: Final = 64
_OVERWRITES: Final = ", and what is added would replace what stands there"


class PatchRefused(ValueError):
    """A patch was not applied; nothing has changed.

    Attributes:
        code: why, one of the `SETTINGS_` codes.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a patch, its form checked.

    Attributes:
        number: its place in the patch, from 1.
        source: where `copy` and `move` take from; None for the others.
        value: of `add`, `replace` and `test`; None for the others too.
    """

    number: int
    op: str
    path: Tokens
    source: Tokens | None
    value: JsonValue
    shown: str

    def refused(self, code: ErrorCode, why: str) -> PatchRefused:
        """Return the refusal of the patch for what is wrong with this operation."""
        return PatchRefused(code, f"operation {self.number} ({self.shown}): {why}")


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes settings, and by which rules."""

    rules: SettingsRules
    actor: ActorType


def parse_patch(patch: JsonValue) -> tuple[Operation, ...]:
    """Return the operations of a patch.

    Raises:
        PatchRefused: it is no list of 1 to 256 operations with exactly their fields, or has more
            than 64 KiB.
    """
    invalid = ErrorCode.SETTINGS_PATCH_INVALID
    if not isinstance(patch, list) or not patch:
        raise PatchRefused(invalid, "a patch is a list of operations, and at least one")
    if len(patch) > OPERATIONS_MAX:
        text = f"a patch has at most {OPERATIONS_MAX} operations, not {len(patch)}"
        raise PatchRefused(invalid, text)
    try:
        size = len(canonical_bytes(patch))
    except CanonicalError as error:
        raise PatchRefused(invalid, f"the patch has no JSON form: {error}") from error
    if size > PATCH_BYTES_MAX:
        text = f"a patch has at most {PATCH_BYTES_MAX} bytes of JSON, not {size}"
        raise PatchRefused(invalid, text)
    return tuple(_parse(number, item) for number, item in enumerate(patch, 1))


def apply_patch(
    document: JsonValue, operations: Sequence[Operation], author: Author | None
) -> JsonValue:
    """Return the document that a patch makes of another one.

    Args:
        document: stays as it is.
        author: who must be allowed each operation; None for a patch that was accepted before.

    Raises:
        PatchRefused: an operation is not allowed, cannot be carried out, or would make the
            document too large.
    """
    work = _Work(copy.deepcopy(document), author, len(canonical_bytes(document)))
    for operation in operations:
        work.carry_out(operation)
    size = len(canonical_bytes(work.document))
    if size > SETTINGS_BYTES_MAX:
        text = f"settings have at most {SETTINGS_BYTES_MAX} bytes of JSON; these would have {size}"
        raise PatchRefused(ErrorCode.SETTINGS_REJECTED, text)
    return work.document


class _Work:
    """A document between two operations of a patch."""

    def __init__(self, document: JsonValue, author: Author | None, size: int) -> None:
        self.document = document
        self._author = author
        self._size = size

    def carry_out(self, operation: Operation) -> None:
        match operation.op:
            case "test":
                self._test(operation)
            case "add":
                self._add(operation, operation.value)
            case "replace":
                self._require(operation, operation.path, Permission.REPLACE)
                self._find(operation, operation.path)
                self._apply(operation, "replace", operation.value)
            case "remove":
                self._require(operation, operation.path, Permission.REMOVE)
                self._remove(operation, operation.path)
            case "copy":
                self._copy(operation)
            case _:
                self._move(operation)

    def _test(self, operation: Operation) -> None:
        self._require(operation, operation.path, Permission.READ)
        found = self._find(operation, operation.path)
        if canonical_bytes(found) != canonical_bytes(operation.value):
            raise operation.refused(
                ErrorCode.SETTINGS_PATCH_FAILED, "another value stands there; nothing was changed"
            )

    def _copy(self, operation: Operation) -> None:
        source = _source(operation)
        self._require(operation, source, Permission.READ)
        value = copy.deepcopy(self._find(operation, source))
        self._size += len(canonical_bytes(value))
        if self._size > GROWTH_BYTES_MAX:
            text = f"the copies of a patch may not come to more than {GROWTH_BYTES_MAX} bytes"
            raise operation.refused(ErrorCode.SETTINGS_REJECTED, text)
        self._add(operation, value)

    def _move(self, operation: Operation) -> None:
        source, failed = _source(operation), ErrorCode.SETTINGS_PATCH_FAILED
        self._require(operation, source, Permission.READ)
        self._require(operation, source, Permission.REMOVE)
        value = self._find(operation, source)
        if source == operation.path:
            return
        if operation.path[: len(source)] == source:
            raise operation.refused(failed, "nothing can be moved into itself")
        self._remove(operation, source)
        self._add(operation, value)

    def _remove(self, operation: Operation, path: Tokens) -> None:
        if not path:
            text = "the whole cannot be removed; replace it"
            raise operation.refused(ErrorCode.SETTINGS_PATCH_FAILED, text)
        self._find(operation, path)
        self._apply(operation, "remove", None, path)

    def _add(self, operation: Operation, value: JsonValue) -> None:
        needed = self._added_as(operation)
        overwrites = needed is Permission.REPLACE
        self._require(operation, operation.path, needed, _OVERWRITES if overwrites else "")
        self._check_place(operation)
        self._apply(operation, "add", value)

    def _added_as(self, operation: Operation) -> Permission:
        """Return which permission an addition needs here: one that overwrites is a replacement.

        An insertion into a list moves what stands there and overwrites nothing.
        """
        if not operation.path:
            return Permission.REPLACE
        parent = self._look(operation.path[:-1])
        exists = isinstance(parent, dict) and operation.path[-1] in parent
        return Permission.REPLACE if exists else Permission.ADD

    def _check_place(self, operation: Operation) -> None:
        """Refuse a place where nothing can be added."""
        if not operation.path:
            return
        parent = self._find(operation, operation.path[:-1])
        token = operation.path[-1]
        if isinstance(parent, dict) or (isinstance(parent, list) and token == _END):
            return
        if isinstance(parent, list):
            if _INDEX.fullmatch(token) is not None and _within(token, len(parent)):
                return
            why = 'a list takes an index from 0 to its length, or "-"'
        else:
            why = "its parent is neither an object nor a list"
        raise operation.refused(ErrorCode.SETTINGS_PATCH_FAILED, why)

    def _require(
        self, operation: Operation, path: Tokens, permission: Permission, reason: str = ""
    ) -> None:
        author = self._author
        if author is None or author.rules.allow(path, permission, author.actor):
            return
        why = f"{author.actor.value} may not {permission.value} there{reason}"
        raise operation.refused(ErrorCode.SETTINGS_DENIED, why)

    def _find(self, operation: Operation, path: Tokens) -> JsonValue:
        found = self._look(path)
        if isinstance(found, _Nothing):
            raise operation.refused(ErrorCode.SETTINGS_PATCH_FAILED, "there is no such place")
        return found

    def _look(self, path: Tokens) -> "JsonValue | _Nothing":
        value: JsonValue = self.document
        for token in path:
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif (
                isinstance(value, list)
                and _INDEX.fullmatch(token) is not None
                and _within(token, len(value) - 1)
            ):
                value = value[int(token)]
            else:
                return _NOTHING
        return value

    def _apply(
        self, operation: Operation, op: str, value: JsonValue, path: Tokens | None = None
    ) -> None:
        import jsonpatch  # noqa: PLC0415 - 10 ms that only a change of settings costs

        raw: dict[str, JsonValue] = {"op": op, "path": _pointer(path or operation.path)}
        if op != "remove":
            raw["value"] = copy.deepcopy(value)
        try:
            patched = jsonpatch.JsonPatch([raw]).apply(self.document, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            text = "it cannot be carried out here"
            raise operation.refused(ErrorCode.SETTINGS_PATCH_FAILED, text) from error
        self.document = cast("JsonValue", patched)


class _Nothing:
    """What stands at a place that a document does not have."""


_NOTHING: Final = _Nothing()


def _within(token: str, last: int) -> bool:
    """Say whether a decimal index is at most `last`; a long one is not even read."""
    return len(token) <= len(str(max(last, 0))) and int(token) <= last


def _source(operation: Operation) -> Tokens:
    assert operation.source is not None, "checked when it was parsed"
    return operation.source


def _pointer(tokens: Tokens) -> str:
    return "".join(f"/{token.replace('~', '~0').replace('/', '~1')}" for token in tokens)


def _parse(number: int, item: JsonValue) -> Operation:
    where = f"operation {number}"
    invalid = ErrorCode.SETTINGS_PATCH_INVALID
    op = item.get("op") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(op, str) or op not in _FIELDS:
        names = ", ".join(sorted(_FIELDS))
        raise PatchRefused(invalid, f"{where}: an operation is an object whose op is of: {names}")
    if item.keys() != _FIELDS[op]:
        names = ", ".join(sorted(_FIELDS[op]))
        raise PatchRefused(invalid, f"{where}: {op} has exactly: {names}")
    try:
        path = pointer_tokens(item["path"])
        source = pointer_tokens(item["from"]) if "from" in item else None
    except PointerInvalid as error:
        raise PatchRefused(invalid, f"{where}: {error}") from error
    return Operation(number, op, path, source, item.get("value"), _shown(op, path, source))


def _shown(op: str, path: Tokens, source: Tokens | None) -> str:
    """Return an operation as an error names it: without its value, and short."""
    places = [_pointer(tokens) or '""' for tokens in (source, path) if tokens is not None]
    text = f"{op} {' to '.join(places)}"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
