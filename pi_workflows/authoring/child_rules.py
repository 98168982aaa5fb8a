"""What a workflow asks of those that it includes."""

from collections.abc import Mapping
from typing import Any

from pi_workflows.authoring.codec import ANY_JSON
from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.errors import Problems
from pi_workflows.authoring.graph import unknown_exit
from pi_workflows.authoring.mounts import Include
from pi_workflows.protocol.definition import exit_node_id, exit_of


def check_includes(includes: Mapping[str, Include], problems: Problems) -> None:
    """Note what is wrong with the children of one workflow that are there already."""
    for mount, include in includes.items():
        if isinstance(include.child, Definition):
            check_child(mount, include, include.child, problems)


def check_child(mount: str, include: Include, child: Definition[Any], problems: Problems) -> None:
    """Note what keeps a workflow from being included here."""

    def note(code: str, message: str, fix: str) -> None:
        problems.add(code, message, mount=mount, fix=fix, location=include.location)

    if include.settings is not None and child.settings is None:
        message = f'it makes settings for workflow "{child.name}", which declares none.'
        note("SETTINGS_MAP_WITHOUT_SETTINGS", message, "Leave settings= out.")
    there = f"In {child.source.name}, give"
    if not child.exits:
        message = f'workflow "{child.name}" has no exit.'
        note("CHILD_NO_EXIT", message, f'{there} it one: wf.exit("done", last_node).')
    else:
        known = {exit_.source for exit_ in child.exits.values()}
        lost = [f'"{node_id}"' for node_id in _terminals(child) if node_id not in known]
        if lost:
            message = f'workflow "{child.name}" can end at {", ".join(lost)} without an exit.'
            fix = f"{there} every node without an edge an exit."
            note("CHILD_TERMINAL_WITHOUT_EXIT", message, fix)
    for difference in _differences(child, include.contract):
        message = f'workflow "{child.name}" differs from its contract: {difference}'
        note("CONTRACT_MISMATCH", message, "Include another workflow, or give another contract.")


def _terminals(definition: Definition[Any]) -> list[str]:
    """Return the nodes without an edge, the known exits of its mounts among them."""
    ids = list(definition.nodes)
    for mount, include in definition.includes.items():
        ids += [
            exit_node_id(mount, name) for name in (include.shape.exits if include.shape else ())
        ]
    return [node_id for node_id in ids if node_id not in definition.edges]


def _differences(child: Definition[Any], contract: Definition[Any] | None) -> list[str]:
    if contract is None:
        return []
    found = []
    if child.contract_id != contract.contract_id:
        found.append(f"contract_id is {child.contract_id!r}, not {contract.contract_id!r}.")
    if set(child.exits) != set(contract.exits):
        has, wanted = (
            ", ".join(sorted(names)) or "none" for names in (child.exits, contract.exits)
        )
        found.append(f"its exits are {has}, not {wanted}.")
    if (child.input_codec is ANY_JSON) != (contract.input_codec is ANY_JSON):
        has = "no" if child.input_codec is ANY_JSON else "an"
        found.append(f"it declares {has} input type.")
    return found


def check_exits_used(
    mount: str,
    include: Include,
    parent: Definition[Any],
    child: Definition[Any],
    problems: Problems,
) -> None:
    """Note the exits that a parent takes for granted and its resolved child does not have."""
    if include.shape is not None:
        return  # Checked by build(); a contract's exits are compared as a whole.
    for source in parent.edges:
        left = exit_of(source)
        if left is not None and left[0] == mount:
            message = unknown_exit(left[1], child.name, child.exits)
            if message is not None:
                problems.add("EDGE_UNKNOWN_FROM", message, mount=mount, location=include.location)
    for name, exit_ in parent.exits.items():
        left = exit_of(exit_.source)
        if left is not None and left[0] == mount:
            message = unknown_exit(left[1], child.name, child.exits)
            if message is not None:
                problems.add("EXIT_UNKNOWN_NODE", message, exit_=name, location=exit_.location)
