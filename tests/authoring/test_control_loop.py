"""Control loops: the ordinary edges they become, and each rule they can break."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from pi_workflows import ControlRoute, Definition, DefinitionError, Route, Workflow
from pi_workflows.protocol.definition import PlainEdge, SwitchEdge
from tests.authoring.test_composition import repair
from tests.authoring.test_graph import Next

Routes = dict[Any, Any]


class Loop:
    """A deciding node, two that work and one that ends."""

    def __init__(self) -> None:
        wf = self.wf = Workflow("loop")

        @wf.compute()
        def decide() -> Route[Next]:
            return Route(route=Next.again)

        @wf.compute()
        def work() -> int:
            return 1

        @wf.compute()
        def more() -> int:
            return 1

        @wf.compute()
        def done() -> int:
            return 1

        self.decide, self.work, self.more, self.done = decide, work, more, done

    def build(self) -> Definition[Any]:
        return self.wf.build(start=self.decide)

    def refused(self, routes: Any) -> list[str]:  # noqa: ANN401 - wrong on purpose
        self.wf.control_loop(self.decide, return_to=self.decide, routes=routes)
        with pytest.raises(DefinitionError) as caught:
            self.build()
        problems = caught.value.problems
        assert problems[0].subject == 'workflow "loop", node "decide"'
        return [problem.message for problem in problems if problem.code == "DEFINITION_INVALID"]


def test_a_control_loop_becomes_one_choice_and_one_edge_per_return() -> None:
    """Nothing else of it is left.

    Case: B25.
    """
    loop = Loop()
    loop.wf.edge(loop.work, loop.more)
    again: ControlRoute = {"to": loop.work, "returns": [loop.more]}
    enough: ControlRoute = {"to": loop.done, "terminal": True}
    loop.wf.control_loop(
        loop.decide, return_to=loop.decide, routes={Next.again: again, Next.enough: enough}
    )
    assert loop.build().edges == {
        "work": PlainEdge("more"),
        "decide": SwitchEdge("$.route", {"again": "work", "enough": "done"}),
        "more": PlainEdge("decide"),
    }


def test_a_mount_may_be_a_route_and_its_exit_a_return() -> None:
    """Case: B25."""
    child, fixed, _ = repair()
    wf = Workflow("loop")

    @wf.compute()
    def decide() -> Route[Next]:
        return Route(route=Next.again)

    fix = wf.include("fix", child)
    last = wf.include("last", child)
    wf.control_loop(
        decide,
        return_to=decide,
        routes={
            Next.again: {"to": fix, "returns": [fix[fixed], fix["blocked"]]},
            Next.enough: {"to": last, "terminal": True},
        },
    )
    assert wf.build(start=decide).edges == {
        "decide": SwitchEdge("$.route", {"again": "fix", "enough": "last"}),
        "fix/__piw_exit_fixed": PlainEdge("decide"),
        "fix/__piw_exit_blocked": PlainEdge("decide"),
    }


def test_a_missing_route_is_found_as_in_any_choice() -> None:
    loop = Loop()
    loop.wf.control_loop(
        loop.decide,
        return_to=loop.decide,
        routes={Next.again: {"to": loop.work, "returns": [loop.work]}},
    )
    with pytest.raises(DefinitionError) as caught:
        loop.build()
    text = str(caught.value)
    assert "no case for Next.enough." in text
    assert "Add it to wf.control_loop(decide, ..., routes={...})." in text


def again(**fields: object) -> Callable[[Loop], Routes]:
    """Return routes of which the first has these fields; names stand for the loop's nodes."""

    def make(loop: Loop) -> Routes:
        def node(value: object) -> object:
            return getattr(loop, value) if isinstance(value, str) else value

        route: Routes = {
            key: [node(one) for one in value] if isinstance(value, list) else node(value)
            for key, value in fields.items()
        }
        return {Next.again: route, Next.enough: {"to": loop.done, "terminal": True}}

    return make


def named(name: object) -> Callable[[Loop], Routes]:
    return lambda loop: {name: {"to": loop.work, "returns": [loop.work]}}


def twice(loop: Loop) -> Routes:
    return {
        Next.again: {"to": loop.work, "returns": [loop.work]},
        Next.enough: {"to": loop.more, "returns": [loop.work]},
    }


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        (lambda _loop: {}, "a control loop has routes"),
        (lambda _loop: 3, "a control loop has routes"),
        (again(to="work"), 'route "again" goes on without returns'),
        (again(to="work", returns=[]), 'route "again" goes on without returns'),
        (again(to="work", returns=["more"], terminal=True), "is terminal and has returns"),
        (twice, 'a return is claimed twice, also by route "again".'),
        (again(to="work", returns=["work", "work"]), "a return is claimed twice"),
        (again(to="work", returns=["decide"]), "is no return of its own loop"),
        (named("cancelled"), "no route is named cancelled"),
        (named("1a"), "a route is named by letters"),
        (named("__piw_x"), "belong to the engine"),
        (named(3), "a route is named by letters"),
        (again(to="work", returns=["more"], retruns=1), 'has an unknown field "retruns"'),
        (again(returns=["more"]), 'route "again" is {"to": node'),
        (again(to="work", returns=3), "returns is a list of nodes"),
        (again(to="work", returns=["more"], terminal=3), "terminal is True or False"),
    ],
    ids=itertools.count(1),
)
def test_each_rule_of_a_control_loop_is_told(
    routes: Callable[[Loop], Routes], message: str
) -> None:
    """Case: B25."""
    loop = Loop()
    messages = loop.refused(routes(loop))
    assert any(message in told for told in messages), messages


def test_a_control_loop_needs_a_node_that_decides() -> None:
    loop = Loop()
    undecided: Any = loop.work
    routes: Routes = {"x": {"to": loop.done, "terminal": True}}
    loop.wf.control_loop(undecided, return_to=loop.work, routes=routes)
    with pytest.raises(DefinitionError, match="it returns no Route"):
        loop.wf.build(start=loop.work)
