"""How edges are drawn between the nodes of a workflow: one call per edge."""

from collections.abc import Mapping
from typing import Any

from pi_workflows.authoring.callables import caller_location
from pi_workflows.authoring.control_loop import ControlRoute, broken_loop_rules
from pi_workflows.authoring.errors import Problems
from pi_workflows.authoring.graph import INVALID, DeclaredEdge
from pi_workflows.authoring.handles import Node, Source, Target
from pi_workflows.authoring.route import Decision, K
from pi_workflows.protocol.definition import OUTCOME_PATH


class Edges:
    """A workflow that is being written, as far as its edges go; `build()` checks them all.

    Args:
        problems: where findings go.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._edges: list[DeclaredEdge] = []
        self._built = False

    def edge(self, source: Source[Any], target: Target) -> None:
        """Go from `source` to `target` after outcome `ok`; any other outcome ends the run."""
        self._draw(
            DeclaredEdge(call="wf.edge", source=source, location=caller_location(), to=target)
        )

    def switch(self, node: Source[Any], on: str, cases: Mapping[Any, Target]) -> None:
        """Choose the target by a value of the node's output or result.

        Args:
            on: dotted path below `$.` or `$output.` (the output) or `$result.` (the record). The
                output at a mount's exit is `{exit, output}`.
            cases: targets by value: text, number, boolean, or an enum member of one of them. A
                value without a case fails the run.
        """
        self._switch("wf.switch", node, on, cases)

    def route(self, node: Source[Decision[K]], cases: Mapping[K, Target]) -> None:
        """Choose the target by what the node decides; every member of the enum needs a case.

        Args:
            node: its output is a `Route`, or the `HumanAnswer` of a human decision.
        """
        self._switch("wf.route", node, None, cases)

    def on_outcome(
        self,
        node: Source[Any],
        *,
        ok: Target,
        failed: Target | None = None,
        timed_out: Target | None = None,
    ) -> None:
        """Choose the target by how the node ended; this alone routes after a failure.

        Args:
            failed: None ends the run `failed` with the node's error.
            timed_out: None ends the run `timed_out` with the node's error.
        """
        cases: dict[str, Target] = {"ok": ok}
        if failed is not None:
            cases["failed"] = failed
        if timed_out is not None:
            cases["timed_out"] = timed_out
        self._switch("wf.on_outcome", node, OUTCOME_PATH, cases)

    def control_loop(
        self,
        decide: Node[Decision[K]],
        *,
        return_to: Target,
        routes: Mapping[K, ControlRoute],
    ) -> None:
        """Let one node steer a loop: a choice at it, and an edge from each return to `return_to`.

        Args:
            decide: gives the route; every member of its enum needs one in `routes`.
            return_to: where the loop begins again, often `decide` itself.
            routes: `{"to": node, "returns": [last_nodes]}` for those that come back, and
                `{"to": node, "terminal": True}` for those that leave the loop.
        """
        self._refuse_if_built()
        location = caller_location()
        broken = list(broken_loop_rules(decide, routes))
        node = getattr(decide, "node_id", None)
        for message in broken:
            self._problems.add(INVALID, message, node=node, location=location)
        if broken:
            return
        call = "wf.control_loop"
        cases = {key: route["to"] for key, route in routes.items()}
        self._draw(DeclaredEdge(call=call, source=decide, location=location, cases=cases))
        for route in routes.values():
            for source in route.get("returns", ()):
                self._draw(DeclaredEdge(call=call, source=source, location=location, to=return_to))

    def _switch(self, call: str, node: object, on: object, cases: object) -> None:
        location = caller_location()
        self._draw(DeclaredEdge(call=call, source=node, location=location, on=on, cases=cases))

    def _draw(self, edge: DeclaredEdge) -> None:
        self._refuse_if_built()
        self._edges.append(edge)

    def _refuse_if_built(self) -> None:
        if self._built:
            message = "it is built already; declare everything before wf.build(...)."
            self._problems.add(INVALID, message, location=caller_location())
            self._problems.fail()
