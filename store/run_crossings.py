"""Checks of the steps that enter or leave an included workflow.

Nothing of them is taken on trust that the stored graph and the recorded steps can tell.
"""

from typing import Final

from pi_workflows.protocol.canonical import JsonValue, canonical_bytes
from pi_workflows.protocol.content import INLINE_BYTES_MAX
from pi_workflows.protocol.definition import DefinitionSnapshot, SnapshotNode, exit_of
from pi_workflows.protocol.states import MountRole
from pi_workflows.protocol.version import INCLUDE_ENTRY
from store import blobs, contents, settings_scopes
from store.attempts import AttemptRow
from store.contents import Body, StagedContent
from store.errors import ProposalRefused
from store.proposals import CrossMount
from store.run_frontier import LastStep
from store.transaction import Transaction

_END: Final = b"}"


def check_crossing(
    tx: Transaction,
    definition: DefinitionSnapshot,
    attempt: AttemptRow,
    cross: CrossMount,
    last: LastStep | None,
) -> None:
    """Refuse a crossing whose record is not what the graph and the last step say.

    What a mapper or a validator has made is the author's; all else is known here. An entry begins
    the settings of its invocation, where the workflow declares some.

    Args:
        attempt: of the transition's node; its visit counts the invocations.
        last: the newest step, which is the terminal node of a child that is left.

    Raises:
        ProposalRefused: the node is no such transition, or its output is made up.
        LongWork: a large output is to be looked into on the loop.
    """
    node = definition.nodes[attempt.node_id]
    if node.role is not cross.role:
        raise ProposalRefused("this node crosses no mount that way")
    if cross.role is MountRole.ENTRY:
        _enter(tx, definition, attempt, cross)
    elif node.validated:
        _check_says(tx, cross, {"exit": node.exit_name}, "output")
    else:
        _check_carried(tx, node, cross, last)


def _enter(
    tx: Transaction, definition: DefinitionSnapshot, attempt: AttemptRow, cross: CrossMount
) -> None:
    """Check an entry, and begin the settings of the invocation."""
    mount, invocation = attempt.node_id, attempt.visit
    has_settings = definition.settings_of(mount) is not None
    rest = ("input", "settings") if has_settings else ("input",)
    _check_says(tx, cross, {"schema": INCLUDE_ENTRY, "invocation": invocation}, *rest)
    if has_settings:
        initial = _settings(tx, cross)
        settings_scopes.create_entered(tx, attempt.run_id, mount, invocation, initial)


def _settings(tx: Transaction, cross: CrossMount) -> JsonValue:
    if isinstance(cross.output, StagedContent):
        return contents.member(tx, cross.output.blob_hash, "settings")
    assert isinstance(cross.output_value, dict), "checked just before"
    return cross.output_value["settings"]


def _check_says(
    tx: Transaction, cross: CrossMount, known: dict[str, str | int | None], *rest: str
) -> None:
    """Refuse an output that does not say what is known of it.

    Args:
        rest: names of what it has besides, whatever that is.
    """
    if isinstance(cross.output, StagedContent):
        # Its members are not counted: whoever reads it takes those that it has to have.
        stored = contents.adopt(tx, cross.output)
        said = {name: contents.scalar_at(tx, stored, [name])[1] for name in known}
        complete = all(contents.has_member(tx, stored, name) for name in rest)
    else:
        value = cross.output_value if isinstance(cross.output_value, dict) else {}
        said = {name: value.get(name) for name in known}
        complete = value.keys() == {*known, *rest}
    if not complete or said != known:
        raise ProposalRefused("the transition's output is not what it has to be")


def _check_carried(
    tx: Transaction, node: SnapshotNode, cross: CrossMount, last: LastStep | None
) -> None:
    """Refuse an exit that carries something else than the accepted output of its node."""
    if last is None or last.output_hash is None:
        raise ProposalRefused("nothing was accepted that could leave the mount")
    before, after = _around(node.exit_name), _END
    inner = exit_of(last.node_id)
    cut = (0, 0) if inner is None else (len(_around(inner[1])), len(_END))
    length = contents.size(tx, last.output_hash) - sum(cut) + len(before) + len(after)
    told, told_length = _identity(cross.output)
    if length > INLINE_BYTES_MAX:
        tx.take_long()
    if length != told_length or told != contents.digest_within(
        tx, last.output_hash, cut, before, after
    ):
        raise ProposalRefused("the exit carries another output than was accepted")


def _around(exit_name: str | None) -> bytes:
    """Return what stands before the carried output in the canonical record of an exit."""
    return b'{"exit":' + canonical_bytes(exit_name) + b',"output":'


def _identity(body: Body) -> tuple[bytes, int]:
    if isinstance(body, StagedContent):
        return body.blob_hash, body.byte_length
    assert isinstance(body, blobs.Blob)
    return body.blob_hash, len(body.content)
