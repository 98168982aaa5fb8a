"""Places in lists that are ordered by creation and then id, as clients carry them."""

import base64
import binascii

from pi_workflows.protocol.canonical import (
    INTEGER_MAX,
    CanonicalError,
    canonical_bytes,
    parse_json,
)


def encode(created_at: int, identity: str) -> str:
    """Return the cursor of an item; the page after it begins behind the item."""
    return base64.urlsafe_b64encode(canonical_bytes([created_at, identity])).decode().rstrip("=")


def decode(cursor: str) -> tuple[int, str] | None:
    """Return (created at in UTC epoch ms, id); None when the text is no cursor."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        place = parse_json(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, CanonicalError, ValueError):
        return None
    match place:
        case [int(created_at), str(identity)] if abs(created_at) <= INTEGER_MAX:
            return created_at, identity
        case _:
            return None
