"""Names of nodes as people are shown them."""

from pi_workflows.cli.output import safe_line
from pi_workflows.protocol.definition import exit_of


def shown_node(node_id: str) -> str:
    """Return a compiled id as one safe line; a way out of a mount as its author writes it.

    `ends/__piw_exit_fixed`, as it is stored, is `ends.fixed`.
    """
    left = exit_of(node_id)
    return safe_line(node_id if left is None else f"{left[0]}.{left[1]}")
