"""What a fuzzer sends: valid requests, requests changed in one place, and things that are neither.

Whether a line is a request is judged here by its own means (the standard library's parser and the
`rfc8785` package), so that the server is compared with something else than itself.
"""

import itertools
import json
from dataclasses import dataclass
from typing import Any, Final

import rfc8785
from hypothesis import strategies as st

SCHEMA: Final = "pi-workflows.client.v1"
FRAME_BYTES_MAX: Final = 1_048_576
DEPTH_MAX: Final = 128
_REQUIRED: Final = frozenset(
    {"schema", "type", "requestId", "clientId", "operation", "idempotencyKey", "payload"}
)
_OPTIONAL: Final = frozenset({"runId", "expectedRevision"})
_IDS: Final = ("requestId", "clientId", "operation", "idempotencyKey")
_NEVER: Final = frozenset({"server.stop", "state.verify", "state.status"})
"""One ends the server, the others start a process each: not for a hundred thousand frames."""

NASTY: Final = (
    "",
    "x" * 300,
    "\u0000",
    "\U0001f600" * 70,
    "../../etc/passwd",
    "'; DROP TABLE runs",
)
BASES: Final[tuple[dict[str, Any], ...]] = (
    {"operation": "run.list", "payload": {}},
    {"operation": "run.list", "payload": {"limit": 256, "status": "running"}},
    {"operation": "run.list", "payload": {"limit": -1}},
    {"operation": "run.list", "payload": {"cursor": "not-a-cursor"}},
    {"operation": "run.status", "payload": {}, "runId": "run-unknown"},
    {"operation": "run.cancel", "payload": {"reason": "fuzz"}, "runId": "run-unknown"},
    {"operation": "run.resume", "payload": {}, "runId": "run-unknown", "expectedRevision": 3},
    {"operation": "run.start", "payload": {"projectPath": "/no/such/folder", "workflow": "x"}},
    {"operation": "run.start", "payload": {"projectPath": "/", "workflow": "", "input": 1.5}},
    {"operation": "effect.list", "payload": {}},
    {"operation": "effect.resolve", "payload": {"effectId": "none"}},
    {"operation": "server.status", "payload": {}},
    {"operation": "view.runs.page", "payload": {"limit": 3}},
    {"operation": "view.runs.watch", "payload": {"subscriptionId": "s1"}},
    {"operation": "view.run.watch", "payload": {"subscriptionId": "s2"}, "runId": "run-unknown"},
    {"operation": "view.run.unwatch", "payload": {"subscriptionId": "s1"}},
    {"operation": "view.run.get", "payload": {}, "runId": "run-unknown"},
    {"operation": "view.content", "payload": {"path": "a", "offset": 0}, "runId": "run-unknown"},
    {"operation": "no.such.operation", "payload": {"deep": [[[[{"a": [None, True, 1e-7]}]]]]}},
)
_numbers: Final = itertools.count()


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one connection sends and how it ends.

    Attributes:
        lines: with their newlines; the last one may lack it.
        piece: bytes per write; 0 writes everything at once.
        leaves_early: close without reading what is still to come.
    """

    lines: tuple[bytes, ...]
    piece: int
    leaves_early: bool


def request(base: dict[str, Any], **changed: object) -> dict[str, Any]:
    """Return a request with ids that no other has; all have one length, as replays need it."""
    number = f"{next(_numbers):012}"
    return {
        "schema": SCHEMA,
        "type": "request",
        "requestId": f"r{number}",
        "clientId": "fuzzer",
        "idempotencyKey": f"k{number}",
        **base,
        **changed,
    }


def canonical(value: object) -> bytes:
    """Return the line of a value, by the reference implementation."""
    return bytes(rfc8785.dumps(value)) + b"\n"  # type: ignore[arg-type]


def request_id_of(line: bytes) -> str | None:
    """Return the request's id if this line is one, by our own judgement; None if it is not."""
    if not line.endswith(b"\n") or len(line) > FRAME_BYTES_MAX:
        return None
    try:
        found = json.loads(line[:-1].decode(), object_pairs_hook=_unique, parse_int=_number)
        if not isinstance(found, dict) or _depth(found) > DEPTH_MAX or canonical(found) != line:
            return None
    except (ValueError, RecursionError, OverflowError):
        return None
    names = found.keys()
    if not _REQUIRED <= names <= _REQUIRED | _OPTIONAL or not isinstance(found["payload"], dict):
        return None
    ids = [found[name] for name in _IDS] + ([found["runId"]] if "runId" in found else [])
    revision = found.get("expectedRevision", 0)
    is_good = (
        (found["schema"], found["type"]) == (SCHEMA, "request")
        and all(isinstance(item, str) and 1 <= len(item.encode()) <= 256 for item in ids)
        and type(revision) is int
        and revision >= 0
    )
    return str(found["requestId"]) if is_good else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key twice")
    return members


def _number(text: str) -> int | float:
    """Read a number as ECMAScript does: one beyond 2^53-1 is a double."""
    number = int(text)
    return number if abs(number) < 2**53 else float(number)


def _depth(value: object) -> int:
    """Return how many containers lie in each other, without recursion."""
    deepest, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        deepest += 1
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return deepest


VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(NASTY),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
_FIELDS: Final = (*sorted(_REQUIRED | _OPTIONAL), "extra", "payload.extra", "payload.limit")


def _dumped(value: object, **style: Any) -> bytes:  # noqa: ANN401 - what `json` takes
    text = json.dumps(value, ensure_ascii=False, **style)
    return text.encode("utf-8", "surrogatepass") + b"\n"


@st.composite
def _changed_fields(draw: st.DrawFn) -> bytes:
    """A request with one field replaced, added or gone."""
    changed = request(draw(st.sampled_from(BASES)))
    field = draw(st.sampled_from(_FIELDS))
    target = changed
    if field.startswith("payload."):
        target = changed["payload"] = dict(changed["payload"])
        field = field.removeprefix("payload.")
    if draw(st.booleans()):
        target[field] = draw(VALUES)
    else:
        target.pop(field, None)
    try:
        return canonical(changed)
    except (ValueError, UnicodeEncodeError):
        return _dumped(changed, sort_keys=True, separators=(",", ":"))


@st.composite
def _changed_bytes(draw: st.DrawFn) -> bytes:
    """A request with bytes turned, cut out, doubled or put in."""
    line = bytearray(canonical(request(draw(st.sampled_from(BASES)))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(line) - 1))
        match draw(st.sampled_from(("turn", "cut", "double", "put"))):
            case "turn":
                line[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del line[at]
            case "double":
                line[at:at] = line[at : at + 20]
            case _:
                line.insert(at, draw(st.integers(0, 255)))
        line = line or bytearray(b"x")
    return bytes(line) + (b"" if line.endswith(b"\n") else b"\n")


@st.composite
def _respelled(draw: st.DrawFn) -> bytes:
    """A request in other bytes than the canonical ones, or one that hides something."""
    asked = request(draw(st.sampled_from(BASES)))
    line = canonical(asked)
    spellings = (
        _dumped(asked, sort_keys=True),
        _dumped(asked, separators=(",", ":")),
        line.replace(b"fuzzer", b"\\u0066uzzer"),
        line.replace(b'{"client', b'{"clientId":"other","client', 1),
        line.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + line,
        canonical({**asked, "payload": {"n": 1}}).replace(b'"n":1', b'"n":1.0'),
    )
    return draw(st.sampled_from(spellings))


def _bombs() -> list[bytes]:
    """Lines that are cheap to send and could be dear to read."""
    depths = (100, 127, 128, 129, 1_000, 100_000)
    return [
        *(b"[" * depth + b"\n" for depth in depths),
        *(b'{"a":' * depth + b"1" + b"}" * depth + b"\n" for depth in depths),
        *(b'{"a":' + number + b"}\n" for number in (b"9" * 5_000, b"-" + b"1" * 400, b"1e999")),
        *(b'{"a":' + word + b"}\n" for word in (b"NaN", b"Infinity", b"-Infinity", b"-0")),
        *(b'{"a":"' + text + b'"}\n' for text in (b"\\ud800", b"\xed\xa0\x80", b"\xff", b"\x00")),
        b"{" + b'"a":1,' * 2_000 + b'"a":1}\n',
        b'{"a":[' + b"1e-7," * 2_000 + b"1]}\n",
        b"\n",
        b"\r\n",
        b"{}\n",
        b"null\n",
        b'{"a":1}{"a":1}\n',
    ]


def _nested_payloads() -> list[bytes]:
    """Requests whose payload is nested just as deep as it may be, or deeper."""
    found = []
    for depth in (DEPTH_MAX - 3, DEPTH_MAX - 2, DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1):
        payload: dict[str, Any] = {}
        for _ in range(depth):
            payload = {"a": payload}
        found.append(canonical(request({"operation": "run.list", "payload": payload})))
    return found


def at_the_limit(extra: int) -> bytes:
    """Return a request of exactly one mebibyte and so many bytes."""
    asked = request({"operation": "no.such.operation", "payload": {"filling": ""}})
    room = FRAME_BYTES_MAX - len(canonical(asked)) + extra
    return canonical({**asked, "payload": {"filling": "x" * room}})


BOMBS: Final = (*_bombs(), *_nested_payloads())
HOSTILE: Final = st.one_of(
    _changed_fields(),
    _changed_bytes(),
    _respelled(),
    st.binary(max_size=64).map(lambda data: data + b"\n"),
    VALUES.map(_dumped),
    st.sampled_from(BOMBS),
)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Some requests, mostly followed by one line that is hostile, perhaps torn."""
    first, count = draw(st.integers(0, len(BASES) - 1)), draw(st.integers(0, 12))
    lines = [canonical(request(BASES[(first + n) % len(BASES)])) for n in range(count)]
    hostile = draw(st.integers(0, 4))
    lines.extend(draw(HOSTILE) for _ in range(min(hostile, 1) + (hostile == 4)))
    if draw(st.integers(0, 7)) == 0:
        whole = canonical(request(BASES[first]))
        lines.append(whole[: draw(st.integers(1, len(whole) - 1))])
    sent = b"".join(line for line in lines if not _is_forbidden(line))
    return Conversation(
        lines=_lines_of(sent),
        piece=draw(st.sampled_from((0, 0, 0, 0, 1, 100))),
        leaves_early=draw(st.integers(0, 9)) == 0,
    )


def _lines_of(sent: bytes) -> tuple[bytes, ...]:
    """Cut at newlines, as the server does: a changed byte may have made two lines of one."""
    *whole, rest = sent.split(b"\n")
    return (*(line + b"\n" for line in whole), *((rest,) if rest else ()))


def _is_forbidden(line: bytes) -> bool:
    return any(name.encode() in line for name in _NEVER)
