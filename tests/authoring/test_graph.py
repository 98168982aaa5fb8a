"""Edges: which are sound, and how the others are refused."""

from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from pi_workflows import Definition, DefinitionError, Node, Route, Workflow
from pi_workflows.protocol.definition import PlainEdge, SwitchEdge


class Next(StrEnum):
    again = "again"
    enough = "enough"


class Report(BaseModel):
    status: Literal["clean", "dirty"]
    next_step: Next = Field(alias="nextStep")
    note: str


class Three:
    """A workflow with three nodes, of which `judge` decides."""

    def __init__(self) -> None:
        wf = self.wf = Workflow("fan")

        @wf.compute()
        def fan() -> list[int]:
            return []

        @wf.compute()
        def judge() -> Route[Next]:
            return Route(route=Next.again)

        @wf.compute()
        def total() -> int:
            return 1

        self.fan, self.judge, self.total = fan, judge, total

    def build(self) -> Definition:
        return self.wf.build(start=self.fan)

    def codes(self) -> list[str]:
        """Build and return the codes of all problems."""
        return [problem.code for problem in refusal(self.build).problems]


@pytest.fixture
def three() -> Three:
    return Three()


def refusal(build: Callable[[], object]) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        build()
    return caught.value


def test_plain_edges_routes_and_loops_become_data(three: Three) -> None:
    three.wf.edge(three.fan, three.judge)
    three.wf.route(three.judge, {Next.again: three.fan, Next.enough: three.total})
    definition = three.build()
    assert definition.start_at == "fan"
    assert definition.edges == {
        "fan": PlainEdge("judge"),
        "judge": SwitchEdge("$.route", {"again": "fan", "enough": "total"}),
    }


def test_a_route_with_a_missing_case_is_refused_by_build(three: Three) -> None:
    """Case: B14."""
    three.wf.edge(three.fan, three.judge)
    three.wf.route(three.judge, {Next.again: three.total})
    text = str(refusal(three.build))
    head, fix = text.split("\n")
    expected = (
        'DefinitionError [EDGE_CASES] workflow "fan", node "judge": no case for Next.enough.'
    )
    assert head == expected
    assert fix.startswith("  Add it to wf.route(judge, {...}). (test_graph.py:")


def test_several_missing_cases_are_named_together(three: Three) -> None:
    three.wf.edge(three.fan, three.judge)
    three.wf.route(three.judge, {})
    assert three.codes() == ["DEFINITION_INVALID", "NODE_UNREACHABLE"]


def test_a_case_of_another_enum_is_refused(three: Three) -> None:
    class Other(StrEnum):
        enough = "enough"
        more = "more"

    three.wf.edge(three.fan, three.judge)
    cases: dict[Any, Node[Any]] = {Next.again: three.fan, Other.enough: three.total}
    three.wf.route(three.judge, cases | {Other.more: three.fan})
    error = refusal(three.build)
    assert 'case "more" is none of Next.' in error.message


def test_a_route_on_a_node_without_one_is_refused(three: Three) -> None:
    three.wf.edge(three.fan, three.judge)
    three.wf.route(three.total, {Next.again: three.fan})  # type: ignore[arg-type]
    error = refusal(three.build)
    assert 'node "total": it returns no Route' in error.message


def test_a_subclass_of_a_route_routes_too() -> None:
    class Noted(Route[Next]):
        note: str

    wf = Workflow("flow")

    @wf.compute()
    def judge() -> Noted:
        return Noted(route=Next.again, note="x")

    @wf.compute()
    def end() -> int:
        return 1

    wf.route(judge, {Next.again: judge, Next.enough: end})
    edges = wf.build(start=judge).edges
    assert edges["judge"] == SwitchEdge("$.route", {"again": "judge", "enough": "end"})


def test_an_enum_that_has_no_case_text_cannot_route() -> None:
    class Odd(Enum):
        one = (1, 2)

    wf = Workflow("flow")

    @wf.compute()
    def judge() -> Route[Odd]:
        return Route(route=Odd.one)

    wf.route(judge, {Odd.one: judge})
    assert "it returns no Route" in refusal(lambda: wf.build(start=judge)).message


def test_cases_are_matched_by_json_text(three: Three) -> None:
    class Level(IntEnum):
        high = 9

    three.wf.edge(three.fan, three.total)
    cases = {
        True: three.fan,
        3: three.judge,
        "clean": three.fan,
        Level.high: three.fan,
        0.5: three.fan,
    }
    three.wf.switch(three.total, "$.x", cases)
    edge = three.build().edges["total"]
    assert isinstance(edge, SwitchEdge)
    assert list(edge.cases) == ["true", "3", "clean", "9", "0.5"]


@pytest.mark.parametrize(
    "path", ["status", "$", "$status", "$.", "$.a..b", "$other.x", "", None, 3]
)
def test_a_switch_path_without_a_known_root_is_refused(
    three: Three,
    path: Any,  # noqa: ANN401 - wrong on purpose
) -> None:
    """Case: B7."""
    three.wf.edge(three.fan, three.total)
    three.wf.switch(three.total, path, {"x": three.judge})
    error = refusal(three.build)
    assert error.code == "DEFINITION_INVALID"
    assert 'node "total": a switch reads a path below "$."' in error.message


@pytest.mark.parametrize("path", ["$.status", "$.a.b", "$output.status", "$result.nodeType"])
def test_a_switch_path_with_a_known_root_is_accepted(three: Three, path: str) -> None:
    three.wf.edge(three.fan, three.total)
    three.wf.switch(three.total, path, {"x": three.judge})
    assert three.build().edges["total"] == SwitchEdge(path, {"x": "judge"})


def test_a_second_edge_from_one_node_is_refused(three: Three) -> None:
    """Case: B8."""
    three.wf.edge(three.fan, three.judge)
    three.wf.edge(three.fan, three.total)
    three.wf.route(three.judge, {Next.again: three.fan, Next.enough: three.total})
    error = refusal(three.build)
    assert [problem.code for problem in error.problems] == ["EDGE_DUPLICATE"]
    assert 'node "fan": it already has an edge' in error.message


def test_an_unknown_source_is_refused(three: Three) -> None:
    """Case: B8."""
    three.wf.edge(three.fan, three.judge)
    three.wf.route(three.judge, {Next.again: three.fan, Next.enough: three.total})
    three.wf.edge(Three().total, three.fan)
    assert three.codes() == ["EDGE_UNKNOWN_FROM"]


def test_an_unknown_target_is_refused(three: Three) -> None:
    """Case: B8."""
    three.wf.edge(three.fan, three.judge)
    three.wf.route(three.judge, {Next.again: Three().fan, Next.enough: three.total})
    three.wf.edge(three.total, Three().fan)
    assert three.codes() == ["EDGE_UNKNOWN_TO", "EDGE_UNKNOWN_TO"]


def test_a_text_instead_of_a_handle_is_refused(three: Three) -> None:
    three.wf.edge(three.fan, three.judge)
    cases: Any = {Next.again: "fan", Next.enough: three.total}
    three.wf.route(three.judge, cases)
    three.wf.edge("total", three.fan)  # type: ignore[arg-type]
    error = refusal(three.build)
    assert 'node "judge": the target of wf.route is of type str' in error.message
    assert "the source of wf.edge is of type str" in error.message


def test_a_start_of_another_workflow_is_refused(three: Three) -> None:
    error = refusal(lambda: three.wf.build(start=Three().fan))
    assert error.code == "START_UNKNOWN"


def test_all_unreachable_nodes_are_listed_at_once(three: Three) -> None:
    """Case: B9."""
    error = refusal(three.build)
    assert [problem.code for problem in error.problems] == ["NODE_UNREACHABLE"]
    assert str(error).startswith(
        'DefinitionError [NODE_UNREACHABLE] workflow "fan": '
        'no path from "fan" to "judge", "total".'
    )


def test_outcomes_route_to_recovery(three: Three) -> None:
    three.wf.on_outcome(three.fan, ok=three.judge, failed=three.total)
    three.wf.on_outcome(three.judge, ok=three.total, failed=three.fan, timed_out=three.fan)
    edges = three.build().edges
    assert edges["fan"] == SwitchEdge("$result.outcome", {"ok": "judge", "failed": "total"})
    expected = {"ok": "total", "failed": "fan", "timed_out": "fan"}
    assert edges["judge"] == SwitchEdge("$result.outcome", expected)


def test_on_outcome_needs_a_target_after_ok(three: Three) -> None:
    three.wf.on_outcome(three.fan, ok=None, failed=three.judge)  # type: ignore[arg-type]
    assert "the target of wf.on_outcome is missing" in refusal(three.build).message


@pytest.mark.parametrize(
    ("case", "text"), [("cancelled", "never routes"), ("lost", "no step ends")]
)
def test_a_case_for_an_outcome_that_never_routes_is_refused(
    three: Three, case: str, text: str
) -> None:
    three.wf.edge(three.fan, three.judge)
    three.wf.switch(three.judge, "$result.outcome", {"ok": three.total, case: three.fan})
    assert text in refusal(three.build).message


def test_two_cases_of_one_text_and_odd_case_keys_are_refused(three: Three) -> None:
    three.wf.edge(three.fan, three.judge)
    cases = {"3": three.total, 3: three.fan, None: three.fan, 2**60: three.fan}
    three.wf.switch(three.judge, "$.x", cases)
    error = refusal(three.build)
    assert 'two cases read "3"' in error.message
    assert error.message.count("a case is text, a boolean or a number") == 2


class Reporting:
    """A workflow whose first node returns a model with closed fields."""

    def __init__(self, path: str, *cases: str) -> None:
        wf = Workflow("flow")

        @wf.compute()
        def look() -> Report:
            raise AssertionError

        @wf.compute()
        def end() -> int:
            return 1

        wf.switch(look, path, dict.fromkeys(cases, end))
        self._wf, self._look = wf, look

    def build(self) -> Definition:
        return self._wf.build(start=self._look)


def test_a_switch_on_a_declared_enum_or_literal_needs_every_case() -> None:
    clean = Reporting("$.status", "clean")
    text = refusal(clean.build).message
    assert "no case for 'dirty'." in text
    assert 'Add it to wf.switch(look, "$.status", {...}).' in text
    aliased = Reporting("$output.nextStep", "again", "enough", "more")
    text = refusal(aliased.build).message
    assert 'case "more" is none of Next.' in text


def test_a_switch_on_an_open_field_takes_any_cases() -> None:
    Reporting("$.note", "a", "b").build()
    Reporting("$.unknown.deep", "a").build()
    Reporting("$.status", "clean", "dirty").build()
