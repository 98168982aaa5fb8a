"""The chain of changes from the initial settings to the current ones, replayed on each resume.

A value that no change has made must not steer a run: whoever writes into the file behind the
server's back stops it, and does not lead it.
"""

import hashlib
from typing import Final, NamedTuple

from pi_workflows.protocol.canonical import CanonicalError, load_stored
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.settings_patch import PatchRefused, apply_patch, parse_patch
from store import blobs
from store.blobs import Blob
from store.errors import StoreCorrupt
from store.transaction import Reading

CHANGES_AT_A_TIME: Final = 16
"""How many changes are replayed before the loop is given away."""


class ChainBroken(Exception):
    """Settings are not what their changes make of them; the text names the scope and the place."""


class ChainPlace(NamedTuple):
    """The change up to which the settings of a run have been replayed."""

    scope_id: str = ""
    change_number: int = 0


class LinkRow(NamedTuple):
    """One change."""

    scope_id: str
    change_number: int
    patch_hash: bytes
    before_hash: bytes
    after_hash: bytes


class BrokenRow(NamedTuple):
    """Settings whose rows contradict each other."""

    scope_id: str


# Change n starts from what change n-1 left, the first from the initial settings.
SELECT_BROKEN: Final = """
    SELECT w.scope_id
      FROM workflow_settings AS w JOIN resources AS o ON o.resource_id = w.resource_id
     WHERE w.origin_run_id = :run_id
       AND (o.revision <> (SELECT count(*) FROM workflow_setting_changes AS c
                            WHERE c.scope_id = w.scope_id)
            OR o.revision <> (SELECT coalesce(max(c.change_number), 0)
                                FROM workflow_setting_changes AS c
                               WHERE c.scope_id = w.scope_id)
            OR w.current_hash <> coalesce((SELECT c.after_hash
                                             FROM workflow_setting_changes AS c
                                            WHERE c.scope_id = w.scope_id
                                            ORDER BY c.change_number DESC LIMIT 1),
                                          w.initial_hash)
            OR EXISTS (SELECT 1 FROM workflow_setting_changes AS c
                         LEFT JOIN workflow_setting_changes AS b
                           ON b.scope_id = c.scope_id AND b.change_number = c.change_number - 1
                        WHERE c.scope_id = w.scope_id
                          AND c.before_hash <> coalesce(b.after_hash, w.initial_hash)))
     ORDER BY w.scope_id LIMIT 1
"""

SELECT_LINKS: Final = """
    SELECT c.scope_id, c.change_number, c.patch_hash, c.before_hash, c.after_hash
      FROM workflow_settings AS w
      JOIN workflow_setting_changes AS c ON c.scope_id = w.scope_id
     WHERE w.origin_run_id = :run_id
       AND (c.scope_id, c.change_number) > (:scope_id, :change_number)
     ORDER BY c.scope_id, c.change_number LIMIT :limit
"""

ROW_STATEMENTS: Final = {"SELECT_BROKEN": BrokenRow, "SELECT_LINKS": LinkRow}


def has_settings(definition: DefinitionSnapshot) -> bool:
    """Say whether a workflow, or anything that it includes, declares settings."""
    mounts = definition.mounts.values()
    return definition.settings is not None or any(mount.settings is not None for mount in mounts)


def check_links(reading: Reading, run_id: str) -> None:
    """Hold numbers and hashes of all changes of a run against each other.

    Raises:
        ChainBroken: there is a gap, or a value that no change has left.
    """
    broken = reading.one(BrokenRow, SELECT_BROKEN, {"run_id": run_id})
    if broken is not None:
        raise ChainBroken(
            f"the changes of the settings {broken.scope_id} do not lead from the initial ones to "
            "those that stand"
        )


def replay(
    reading: Reading, run_id: str, place: ChainPlace, limit: int = CHANGES_AT_A_TIME
) -> ChainPlace | None:
    """Carry out the next changes once more and compare; return where they end, None at the end.

    Raises:
        ChainBroken: a change does not make of one value what it left.
    """
    links = reading.many(
        LinkRow,
        SELECT_LINKS,
        {
            "run_id": run_id,
            "scope_id": place.scope_id,
            "change_number": place.change_number,
            "limit": limit,
        },
    )
    for link in links:
        if _made(reading, link) != link.after_hash:
            raise ChainBroken(
                f"change {link.change_number} of the settings {link.scope_id} does not make of "
                "them what is stored"
            )
        place = ChainPlace(link.scope_id, link.change_number)
    return place if len(links) == limit else None


def _made(reading: Reading, link: LinkRow) -> bytes | None:
    """Return the hash of what a change makes; None when it can make nothing."""
    try:
        before = blobs.read(reading, link.before_hash).content
        if hashlib.sha256(before).digest() != link.before_hash:
            return None
        patch = parse_patch(blobs.read_json(reading, link.patch_hash))
        made = apply_patch(load_stored(before), patch, None)
    except (PatchRefused, CanonicalError, StoreCorrupt, ValueError):
        return None
    return Blob.of_json(made).blob_hash
