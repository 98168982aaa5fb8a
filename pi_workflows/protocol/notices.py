"""Notifications: texts of a run for the conversation that it belongs to; no model answers them."""

from typing import Final

from pi_workflows.protocol.canonical import JsonObject

NOTICE_KINDS: Final = ("progress", "final")

TEXT_BYTES_MAX: Final = 65_536
"""Longest text of one notification, in bytes of UTF-8."""


def text_problem(text: str) -> str | None:
    """Return what is wrong with the text of a notification, or None."""
    if not text or text != text.strip():
        return "its text is trimmed and not blank"
    size = len(text.encode())
    if size > TEXT_BYTES_MAX:
        return f"its text has {size} bytes, and at most {TEXT_BYTES_MAX} are allowed"
    return None


def notified(notification_id: str, session_id: str) -> JsonObject:
    """Return the output of a notification that is written."""
    return {"notificationId": notification_id, "targetSessionId": session_id}
