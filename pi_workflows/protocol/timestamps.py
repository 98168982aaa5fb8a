"""Rendering of stored instants for people and wires."""

from datetime import UTC, datetime


def rfc3339(at: int) -> str:
    """Return UTC epoch milliseconds as `2026-01-02T03:04:05.006Z`."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def compact(at: int) -> str:
    """Return UTC epoch milliseconds without punctuation, `20260102T030405006Z`."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}{at % 1000:03d}Z"
