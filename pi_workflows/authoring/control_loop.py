"""A loop that one node steers: the routes out of it, and the nodes that come back (B §1.2).

It is sugar for one choice and one plain edge per return, so that nothing of it is left in the
graph.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Required, TypedDict

from pi_workflows.authoring.handles import MountExit, Source, Target
from pi_workflows.authoring.rules import node_name_rule
from pi_workflows.protocol.states import StepOutcome

_FIELDS: Final = frozenset({"to", "returns", "terminal"})


class ControlRoute(TypedDict, total=False):
    """Where one decision leads.

    Attributes:
        to: the first node of the route.
        returns: the nodes, or exits of mounts, from which the loop begins again.
        terminal: True for a route that leaves the loop; it has no returns.
    """

    to: Required[Target]
    returns: Sequence[Source[Any]]
    terminal: bool


def broken_loop_rules(decide: object, routes: object) -> Iterator[str]:
    """Yield what is wrong with a control loop, whatever it was given."""
    if not isinstance(routes, Mapping) or not routes:
        yield "a control loop has routes: {Next.again: {...}, Next.done: {...}}."
        return
    claimed: dict[object, str] = {}
    for key, route in routes.items():
        name = key.value if isinstance(key, Enum) else key
        broken = node_name_rule(name, "a route")
        if broken is not None:
            yield broken
        if name == StepOutcome.CANCELLED:
            yield "no route is named cancelled: that ends a run and never routes."
        yield from _broken_route_rules(f'route "{name}"', decide, route, claimed)


def _broken_route_rules(
    where: str, decide: object, route: object, claimed: dict[object, str]
) -> Iterator[str]:
    if not isinstance(route, Mapping) or "to" not in route:
        yield f'{where} is {{"to": node, "returns": [...]}} or {{"to": node, "terminal": True}}.'
        return
    unknown = sorted(str(field) for field in route if field not in _FIELDS)
    if unknown:
        yield f'{where} has an unknown field "{unknown[0]}"; it has to, returns and terminal.'
    terminal, returns = route.get("terminal", False), route.get("returns", ())
    if not isinstance(terminal, bool):
        yield f"{where}: terminal is True or False."
    if not isinstance(returns, Sequence) or isinstance(returns, str):
        yield f"{where}: returns is a list of nodes."
        return
    if terminal and returns:
        yield f"{where} is terminal and has returns; take one of both out."
    if not terminal and not returns:
        yield f'{where} goes on without returns; name them, or say "terminal": True.'
    yield from _broken_returns(where, decide, returns, claimed)


def _broken_returns(
    where: str, decide: object, returns: Sequence[object], claimed: dict[object, str]
) -> Iterator[str]:
    for source in returns:
        if source is decide:
            yield f"{where}: the node that decides is no return of its own loop."
        # A mount makes its exits anew each time it is asked for one.
        key = (source.mount, source.exit_name) if isinstance(source, MountExit) else source
        if key in claimed:
            yield f"{where}: a return is claimed twice, also by {claimed[key]}."
        claimed.setdefault(key, where)
