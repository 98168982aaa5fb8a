"""Updates: what a running node says of itself without ending, routing or notifying anything.

An update is a type, a key and an object. Each one replaces the current one of its type and key;
the history of all of them is kept.
"""

import re
from typing import Final

from pi_workflows.protocol.canonical import CanonicalError, canonical_bytes
from pi_workflows.protocol.progress import PROGRESS_TYPE, ProgressInvalid, parse_progress

DATA_BYTES_MAX: Final = 65_536
"""Largest data of one update, in bytes of its canonical JSON."""

PAIRS_MAX: Final = 1_024
"""Most pairs of type and key that one run has at a time."""

RATE_PER_S: Final = 20
"""How many updates of a run are accepted per second, in the long run."""

BURST: Final = 100
"""How many updates of a run are accepted at once after a while without any."""

UPDATE_INVALID: Final = "UPDATE_INVALID"
UPDATE_RATE: Final = "UPDATE_RATE"
UPDATE_PAIRS: Final = "UPDATE_PAIRS"
UPDATE_REFUSED: Final = "UPDATE_REFUSED"

_TYPE: Final = re.compile(r"[a-z][a-z0-9.-]{0,63}")
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")


def update_problem(update_type: object, key: object, data: object) -> str | None:
    """Return what is wrong with an update, one sentence; None when nothing is.

    Data of type `progress` has to be a `pi-workflows.progress.v1`.
    """
    if not isinstance(update_type, str) or _TYPE.fullmatch(update_type) is None:
        return "its type is 1 to 64 of a-z 0-9 . - and starts with a letter"
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        return "its key is 1 to 128 of A-Z a-z 0-9 . _ : / - and starts with a letter or digit"
    return _data_problem(update_type, data)


def _data_problem(update_type: str, data: object) -> str | None:
    if not isinstance(data, dict):
        return "its data is an object"
    try:
        size = len(canonical_bytes(data))
        if update_type == PROGRESS_TYPE:
            parse_progress(data)
    except CanonicalError as error:
        return f"its data has no JSON form: {error}"
    except ProgressInvalid as error:
        return f"its data is no progress: {error}"
    if size > DATA_BYTES_MAX:
        return f"its data has {size} bytes of JSON, and at most {DATA_BYTES_MAX} are allowed"
    return None
