"""Settings in the advance of a run: what a try is bound to, and when a route runs once more."""

from typing import Final, NamedTuple

from pi_workflows.protocol.definition import DefinitionSnapshot, SnapshotNode
from pi_workflows.protocol.states import StepOutcome
from store import settings_scopes
from store.attempts import AttemptRow
from store.errors import StoreCorrupt
from store.resources import Recorder, node_event
from store.settings_scopes import Bound, ScopeRow
from store.transaction import Reading, Transaction, affected_one


class BindingRow(NamedTuple):
    """The settings that a try runs with; all None without settings."""

    settings_scope_id: str | None
    settings_change_number: int | None
    settings_hash: bytes | None


SELECT_BINDING: Final = """
    SELECT settings_scope_id, settings_change_number, settings_hash
      FROM node_attempts WHERE attempt_id = :attempt_id
"""

UPDATE_BINDING: Final = """
    UPDATE node_attempts
       SET settings_scope_id = :scope_id, settings_change_number = :change_number,
           settings_hash = :settings_hash, updated_at = :now
     WHERE attempt_id = :attempt_id AND status = 'running'
"""

ROW_STATEMENTS: Final = {"SELECT_BINDING": BindingRow}


def binding(reading: Reading, attempt_id: str) -> BindingRow | None:
    """Return the settings that a try runs with; None when there is no such try."""
    return reading.one(BindingRow, SELECT_BINDING, {"attempt_id": attempt_id})


class RunSettings:
    """The settings of one run, while a message of its runner is applied."""

    def __init__(
        self, tx: Transaction, recorder: Recorder, run_id: str, definition: DefinitionSnapshot
    ) -> None:
        self._tx = tx
        self._recorder = recorder
        self._run_id = run_id
        self._definition = definition

    def bind(self, node: SnapshotNode, attempt_id: str, known: int | None) -> Bound | None:
        """Give a try that has just begun the settings as they stand; None when there are none.

        Args:
            known: the change up to which the runner has them; None when it has none.
        """
        scope = self._scope(node)
        if scope is None:
            return None
        self._bind(attempt_id, scope)
        return settings_scopes.bound(self._tx, scope, known=known)

    def rerun(self, node: SnapshotNode, attempt: AttemptRow, outcome: StepOutcome) -> Bound | None:
        """Bind a settings route anew if its settings have changed since it began; else None.

        What it made of the older ones does not count. The same transaction that would record it
        compares, so that no change comes between. Code that was stopped at its deadline is not run
        again.
        """
        if not node.settings_route or outcome is StepOutcome.TIMED_OUT:
            return None
        scope = self._scope(node)
        if scope is None:
            raise StoreCorrupt("a settings route has no settings")
        began = binding(self._tx, attempt.attempt_id)
        if began is None or began.settings_change_number == scope.change_number:
            return None
        self._recorder.record(
            node_event(
                "settings_route_retried",
                attempt.node_id,
                attempt.attempt_id,
                {"changeNumber": scope.change_number},
            )
        )
        self._bind(attempt.attempt_id, scope)
        return settings_scopes.bound(self._tx, scope, known=None, reruns=True)

    def _scope(self, node: SnapshotNode) -> ScopeRow | None:
        """Return the settings of the workflow whose code a node is; an entry is its parent's."""
        if self._definition.settings_of(node.mount_path) is None:
            return None
        scope = settings_scopes.current(self._tx, self._run_id, node.mount_path)
        if scope is None:
            raise StoreCorrupt("settings that a workflow declares are missing")
        return scope

    def _bind(self, attempt_id: str, scope: ScopeRow) -> None:
        affected_one(
            self._tx.execute(
                UPDATE_BINDING,
                {
                    "attempt_id": attempt_id,
                    "scope_id": scope.scope_id,
                    "change_number": scope.change_number,
                    "settings_hash": scope.current_hash,
                    "now": self._tx.now,
                },
            )
        )
