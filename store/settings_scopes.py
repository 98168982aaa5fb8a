"""Settings of one invocation of one workflow: what they were at first, and what they are now.

The run's own have an empty mount path. The number of the last change is the revision of the
scope's resource; a scope begins at 0, without an event.
"""

from typing import Final, NamedTuple

from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.protocol.content import ContentReference
from pi_workflows.protocol.ids import ResourceId, resource_id
from pi_workflows.protocol.settings_rules import SETTINGS_BYTES_MAX, scope_id
from pi_workflows.protocol.states import ResourceType
from store import blobs, contents, resources
from store.errors import ProposalRefused
from store.settings_errors import SettingsUnknownError
from store.transaction import Reading, Transaction


class ScopeRow(NamedTuple):
    """Settings as they stand.

    Attributes:
        change_number: how many changes they have seen.
    """

    scope_id: str
    run_id: str
    mount_path: str
    invocation: int
    change_number: int
    initial_hash: bytes
    current_hash: bytes
    created_at: int
    updated_at: int

    @property
    def resource_id(self) -> ResourceId:
        """The resource whose revision is the change number."""
        return resource_id(ResourceType.SETTINGS, self.scope_id)


class Bound(NamedTuple):
    """The settings that a try runs with.

    Attributes:
        value: None also when the runner knows them, or when they are too large for a message.
        content: what large ones are known by.
        known: the runner has them already.
        reruns: the try has to run once more, with these.
    """

    scope_id: str
    change_number: int
    value: JsonValue
    content: ContentReference | None = None
    known: bool = False
    reruns: bool = False


SELECT_CURRENT_SCOPE: Final = """
    SELECT w.scope_id, w.origin_run_id AS run_id, w.mount_path, w.invocation,
           o.revision AS change_number, w.initial_hash, w.current_hash,
           w.created_at, w.updated_at
      FROM workflow_settings AS w JOIN resources AS o ON o.resource_id = w.resource_id
     WHERE w.origin_run_id = :run_id AND w.mount_path = :mount_path
     ORDER BY w.invocation DESC LIMIT 1
"""

SELECT_SCOPE: Final = """
    SELECT w.scope_id, w.origin_run_id AS run_id, w.mount_path, w.invocation,
           o.revision AS change_number, w.initial_hash, w.current_hash,
           w.created_at, w.updated_at
      FROM workflow_settings AS w JOIN resources AS o ON o.resource_id = w.resource_id
     WHERE w.scope_id = :scope_id
"""

INSERT_SCOPE: Final = """
    INSERT INTO workflow_settings (scope_id, resource_id, origin_run_id, active_run_id, mount_path,
                                   invocation, initial_hash, current_hash, created_at, updated_at)
    VALUES (:scope_id, :resource_id, :run_id, :run_id, :mount_path,
            :invocation, :initial_hash, :initial_hash, :now, :now)
"""

ROW_STATEMENTS: Final = {"SELECT_CURRENT_SCOPE": ScopeRow, "SELECT_SCOPE": ScopeRow}


def create(
    tx: Transaction, run_id: str, mount_path: str, invocation: int, initial_hash: bytes
) -> None:
    """Begin the settings of an invocation, with a value that is stored already."""
    name = scope_id(run_id, mount_path, invocation)
    tx.execute(
        INSERT_SCOPE,
        {
            "scope_id": name,
            "resource_id": resources.create(tx, ResourceType.SETTINGS, name),
            "run_id": run_id,
            "mount_path": mount_path,
            "invocation": invocation,
            "initial_hash": initial_hash,
            "now": tx.now,
        },
    )


def create_entered(
    tx: Transaction, run_id: str, mount_path: str, invocation: int, value: JsonValue
) -> None:
    """Begin the settings that an entry into an included workflow has made.

    Raises:
        ProposalRefused: they are larger than settings may be.
    """
    initial = blobs.Blob.of_json(value)
    if len(initial.content) > SETTINGS_BYTES_MAX:
        raise ProposalRefused("the initial settings are too large")
    create(tx, run_id, mount_path, invocation, blobs.put(tx, initial))


def current(reading: Reading, run_id: str, mount_path: str = "") -> ScopeRow | None:
    """Return the settings of the newest invocation of a mount, or of the run; None without any."""
    return reading.one(
        ScopeRow, SELECT_CURRENT_SCOPE, {"run_id": run_id, "mount_path": mount_path}
    )


def require(reading: Reading, run_id: str, wanted: str | None) -> ScopeRow:
    """Return settings of a run: those with this id, or its own.

    Raises:
        SettingsUnknownError: it has none such.
    """
    if wanted is None:
        found = current(reading, run_id)
    else:
        found = reading.one(ScopeRow, SELECT_SCOPE, {"scope_id": wanted})
    if found is None or found.run_id != run_id:
        raise SettingsUnknownError(run_id, wanted)
    return found


def bound(reading: Reading, scope: ScopeRow, *, known: int | None, reruns: bool = False) -> Bound:
    """Return settings as a runner is told them.

    Args:
        known: the change up to which it has them; None when it has none.
    """
    if known == scope.change_number:
        return Bound(scope.scope_id, scope.change_number, None, known=True, reruns=reruns)
    value, content = contents.read_small(reading, scope.current_hash)
    return Bound(scope.scope_id, scope.change_number, value, content, reruns=reruns)
