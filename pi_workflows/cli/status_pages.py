"""Pages of `server status` and `state status`: grouped lines for people, nothing left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pi_workflows.cli.render import local_time, text_of
from pi_workflows.protocol.canonical import JsonObject, JsonValue

_KIB: Final = 1_024
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class _Line:
    """One fact: its name on the wire, how people call it, how it is written."""

    name: str
    label: str
    written: Callable[[JsonValue], str] = text_of


_Group = tuple[str, Sequence[_Line]]


def size(value: JsonValue) -> str:
    """Return a number of bytes as people say it: `512 bytes`, `1.4 MiB`."""
    if not isinstance(value, int):
        return text_of(value)
    shown, power = float(value), 0
    while shown >= _KIB and power + 1 < len(_UNITS):
        shown, power = shown / _KIB, power + 1
    return f"{shown:.1f} {_UNITS[power]}" if power else f"{value} bytes"


def _tally(value: JsonValue) -> str:
    """Return counts by status: `2 completed, 1 failed`."""
    if not isinstance(value, dict):
        return text_of(value)
    return ", ".join(f"{text_of(count)} {status}" for status, count in value.items()) or "none"


_SERVER: Final[Sequence[_Group]] = (
    (
        "server",
        (
            _Line("state", "state"),
            _Line("pid", "PID"),
            _Line("epoch", "epoch"),
            _Line("serverId", "id"),
            _Line("startedAt", "started", local_time),
            _Line("packageVersion", "version"),
            _Line("socket", "socket"),
            _Line("clients", "clients"),
        ),
    ),
    (
        "runs",
        (
            _Line("activeRunners", "runners"),
            _Line("capacity", "runners at most"),
            _Line("queued", "queued"),
            _Line("starting", "starting"),
            _Line("running", "running"),
            _Line("waiting", "waiting"),
            _Line("parked", "parked"),
            _Line("parkedBecause", "parked because", _tally),
            _Line("ambiguousEffects", "ambiguous effects"),
        ),
    ),
)

_STATE: Final[Sequence[_Group]] = (
    (
        "database",
        (
            _Line("schemaName", "schema"),
            _Line("schemaVersion", "schema version"),
            _Line("schemaDigest", "schema digest"),
            _Line("applicationId", "application id"),
            _Line("userVersion", "user version"),
            _Line("databaseBytes", "size", size),
            _Line("walBytes", "write-ahead log", size),
            _Line("violations", "violations"),
        ),
    ),
    (
        "stored",
        (
            _Line("runs", "runs", _tally),
            _Line("queue", "queue", _tally),
            _Line("effects", "effects", _tally),
        ),
    ),
    (
        "unsettled",
        (
            _Line("activeLeases", "active leases"),
            _Line("expiredLeases", "expired leases"),
            _Line("pendingRequests", "pending requests"),
            _Line("pendingDecisions", "pending decisions"),
            _Line("unsettledEffects", "unsettled effects"),
            _Line("ambiguousEffects", "ambiguous effects"),
        ),
    ),
)


def server_page(facts: JsonObject) -> str:
    """Return the answer to `server.status` as a page."""
    return _page(facts, _SERVER)


def state_page(facts: JsonObject) -> str:
    """Return the answer to `state.status` as a page."""
    counts = facts.get("counts")
    unfolded = {name: value for name, value in facts.items() if name != "counts"}
    return _page(unfolded | (counts if isinstance(counts, dict) else {}), _STATE)


def _page(facts: JsonObject, groups: Sequence[_Group]) -> str:
    """Return the groups that have facts; what no group knows stands in one of its own."""
    known = {line.name for _, lines in groups for line in lines}
    rest = [_Line(name, name) for name in facts if name not in known]
    shown = [
        (
            title,
            [(line.label, line.written(facts[line.name])) for line in lines if line.name in facts],
        )
        for title, lines in (*groups, ("other", rest))
    ]
    width = max((len(label) for _, lines in shown for label, _ in lines), default=0)
    return "\n\n".join(
        "\n".join([title, *(f"  {label:<{width}}  {text}" for label, text in lines)])
        for title, lines in shown
        if lines
    )
