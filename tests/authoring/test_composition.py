"""Includes and exits: what `build()` makes of them, and how it refuses what is wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from pi_workflows import Ctx, Definition, DefinitionError, Exit, Node, Problem, Route, Workflow
from tests.authoring.test_graph import Next


class Repair:
    """A child with two ways out, whose parts a test can leave away."""

    def __init__(self, name: str = "repair", *, contract_id: str | None = None) -> None:
        wf = self.wf = Workflow(name, contract_id=contract_id, max_steps=7)

        @wf.compute()
        def work() -> Route[Next]:
            return Route(route=Next.enough)

        @wf.compute()
        def good() -> str:
            return "good"

        @wf.compute()
        def bad() -> int:
            return 1

        self.work, self.good, self.bad = work, good, bad
        wf.route(work, {Next.enough: good, Next.again: bad})

    def exits(self) -> tuple[Exit[str], Exit[int]]:
        return self.wf.exit("fixed", self.good), self.wf.exit("blocked", self.bad)

    def build(self) -> Definition[Any]:
        return self.wf.build(start=self.work)


class Parent:
    """A parent of one child, two nodes around its mount."""

    def __init__(self) -> None:
        wf = self.wf = Workflow("parent")

        @wf.compute()
        def look() -> str:
            return "x"

        @wf.compute()
        def report() -> str:
            return "y"

        self.look, self.report = look, report

    def problems(self, start: Node[Any] | None = None) -> list[Problem]:
        return problems_of(lambda: self.wf.build(start=start or self.look))


def problems_of(build: Callable[[], object]) -> list[Problem]:
    with pytest.raises(DefinitionError) as caught:
        build()
    return list(caught.value.problems)


def codes(problems: list[Problem]) -> list[str]:
    return [problem.code for problem in problems]


def repair() -> tuple[Definition[Any], Exit[str], Exit[int]]:
    child = Repair()
    fixed, blocked = child.exits()
    return child.build(), fixed, blocked


def test_a_mount_is_entered_by_its_handle_and_left_by_an_exit() -> None:
    child, fixed, blocked = repair()
    parent = Parent()
    fix = parent.wf.include("fix", child)
    parent.wf.edge(parent.look, fix)
    parent.wf.edge(fix[fixed], parent.report)
    parent.wf.edge(fix["blocked"], parent.report)
    definition = parent.wf.build(start=parent.look)
    assert list(definition.includes) == ["fix"]
    assert set(definition.edges) == {
        "look",
        "fix/__piw_exit_fixed",
        "fix/__piw_exit_blocked",
    }
    assert blocked.exit_name == "blocked"


def test_a_mount_may_be_the_start_and_the_target_of_a_choice() -> None:
    child, fixed, _ = repair()
    wf = Workflow("parent")

    @wf.compute()
    def judge() -> Route[Next]:
        return Route(route=Next.again)

    fix = wf.include("fix", child)
    again = wf.include("again", child)
    wf.edge(fix[fixed], judge)
    wf.route(judge, {Next.again: fix, Next.enough: again})
    assert wf.build(start=fix).start_at == "fix"


@pytest.mark.parametrize("name", ["1a", "a.b", "a/b", "__piw_x", "__x__", ""])
def test_a_mount_and_an_exit_are_named_like_nodes(name: str) -> None:
    """Case: B2."""
    child, _, _ = repair()
    parent = Parent()
    mount = parent.wf.include(name, child)
    parent.wf.edge(parent.look, mount)
    parent.wf.exit(name, parent.report)
    found = codes(parent.problems())
    assert found.count("DEFINITION_INVALID") >= 2


def test_a_mount_that_is_named_like_a_node_is_refused() -> None:
    """Case: B3."""
    child, _, _ = repair()
    parent = Parent()
    fix = parent.wf.include("report", child)
    parent.wf.edge(parent.look, fix)
    (problem, *_) = parent.problems()
    assert problem.subject == 'workflow "parent", mount "report"'
    assert problem.message == "a node has this name; a mount needs one of its own."
    assert problem.location is not None
    assert problem.location.short.startswith("test_composition.py:")


def test_two_mounts_and_two_exits_of_one_name_are_refused() -> None:
    child, _, _ = repair()
    parent = Parent()
    fix = parent.wf.include("fix", child)
    parent.wf.include("fix", child)
    parent.wf.edge(parent.look, fix)
    parent.wf.exit("done", parent.report)
    parent.wf.exit("done", parent.look)
    texts = [problem.text for problem in parent.problems()]
    assert any('mount "fix": the name is taken by the mount on line' in text for text in texts)
    assert any('exit "done": the name is taken by the exit on line' in text for text in texts)


@pytest.mark.parametrize(
    ("child", "options", "message"),
    [
        (3, {}, "it includes a built workflow, or the name or path of one."),
        (" ", {}, "it includes a built workflow, or the name or path of one."),
        (Workflow("raw"), {}, "its workflow is not built; include what wf.build(...) returned."),
        ("x", {"contract": "y"}, "contract is a built workflow."),
        ("x", {"input": 3}, "input is a function of the context, or of nothing"),
        ("x", {"input": lambda _a, _b: 1}, "input is a function of the context, or of nothing"),
    ],
)
def test_what_cannot_be_included_is_refused(
    child: Any,  # noqa: ANN401 - wrong on purpose
    options: dict[str, Any],
    message: str,
) -> None:
    parent = Parent()
    parent.wf.include("fix", child, **options)
    assert any(message in problem.text for problem in parent.problems())


def test_an_async_mapper_and_an_async_validator_are_refused() -> None:
    async def later(_: object) -> object:
        return 1

    parent = Parent()
    parent.wf.include("fix", "x", input=later)
    parent.wf.exit("done", parent.report, validate=later)  # type: ignore[arg-type]
    texts = [problem.message for problem in parent.problems()]
    assert "input is an ordinary function, neither async nor a generator." in texts
    assert "validate is an ordinary function, neither async nor a generator." in texts


def test_an_exit_of_a_node_with_an_outgoing_edge_is_refused() -> None:
    """Case: B10."""
    parent = Parent()
    parent.wf.edge(parent.look, parent.report)
    parent.wf.exit("done", parent.look)
    (problem,) = parent.problems()
    assert problem.code == "EXIT_NOT_TERMINAL"
    assert problem.subject == 'workflow "parent", exit "done"'
    assert problem.message == '"look" has an outgoing edge.'


def test_a_node_serves_one_exit() -> None:
    parent = Parent()
    parent.wf.edge(parent.look, parent.report)
    parent.wf.exit("done", parent.report)
    parent.wf.exit("over", parent.report)
    (problem,) = parent.problems()
    assert problem.code == "EXIT_SHARED_NODE"
    assert problem.message == '"report" serves exit "done" already.'


def test_an_exit_of_a_foreign_node_is_refused() -> None:
    parent = Parent()
    parent.wf.edge(parent.look, parent.report)
    parent.wf.exit("done", Repair().good)
    assert codes(parent.problems()) == ["EXIT_UNKNOWN_NODE"]


def test_an_included_child_needs_an_exit_for_every_terminal_node() -> None:
    """Case: B10."""
    child = Repair()
    fixed = child.wf.exit("fixed", child.good)
    parent = Parent()
    fix = parent.wf.include("fix", child.build())
    parent.wf.edge(parent.look, fix)
    parent.wf.edge(fix[fixed], parent.report)
    (problem,) = parent.problems()
    assert problem.code == "CHILD_TERMINAL_WITHOUT_EXIT"
    assert problem.subject == 'workflow "parent", mount "fix"'
    assert problem.message == 'workflow "repair" can end at "bad" without an exit.'


def test_a_child_without_any_exit_is_refused() -> None:
    """Case: B10."""
    parent = Parent()
    fix = parent.wf.include("fix", Repair().build())
    parent.wf.edge(parent.look, fix)
    parent.wf.edge(parent.report, parent.look)
    problems = parent.problems(start=parent.report)
    assert codes(problems) == ["CHILD_NO_EXIT"]
    assert 'wf.exit("done", last_node)' in problems[0].text


def wrapped(*names: str) -> Definition[Any]:
    """Return `middle`, which includes `repair` at `fix` and passes on those of its exits."""
    inner, fixed, blocked = repair()
    middle = Workflow("middle", max_steps=9)

    @middle.compute()
    def begin() -> None:
        pass

    fix = middle.include("fix", inner)
    middle.edge(begin, fix)
    for name in names:
        middle.exit(name, fix[fixed if name == "fine" else blocked])
    return middle.build(start=begin)


def test_an_unconnected_exit_of_a_mount_is_a_terminal_node_of_a_child() -> None:
    """Case: B10."""
    parent = Parent()
    parent.wf.edge(parent.look, parent.report)
    parent.wf.edge(parent.report, parent.wf.include("m", wrapped("fine")))
    (problem,) = parent.problems()
    assert problem.code == "CHILD_TERMINAL_WITHOUT_EXIT"
    assert '"fix/__piw_exit_blocked"' in problem.message
    parent = Parent()
    parent.wf.edge(parent.look, parent.report)
    parent.wf.edge(parent.report, parent.wf.include("m", wrapped("fine", "stuck")))
    assert parent.wf.build(start=parent.look).start_at == "look"


def test_edges_name_only_exits_that_the_child_has() -> None:
    child, _, _ = repair()
    other = Repair("other")
    foreign, _ = other.exits()
    parent = Parent()
    fix = parent.wf.include("fix", child)
    parent.wf.edge(parent.look, fix)
    parent.wf.edge(fix["nope"], parent.report)
    parent.wf.switch(fix[foreign], "$.output", {"x": parent.report})
    problems = [p for p in parent.problems() if p.code == "EDGE_UNKNOWN_FROM"]
    assert [problem.message for problem in problems] == [
        'workflow "repair" has no exit "nope"; it has: fixed, blocked.',
        'exit "fixed" belongs to another workflow than "repair".',
    ]


def test_a_mount_is_no_source_and_its_exit_no_target() -> None:
    child, fixed, _ = repair()
    parent = Parent()
    fix = parent.wf.include("fix", child)
    parent.wf.edge(fix, parent.report)  # type: ignore[arg-type]
    parent.wf.edge(parent.look, fix[fixed])  # type: ignore[arg-type]
    texts = [problem.text for problem in parent.problems()]
    assert any("An edge leaves a mount by one of its exits: mount[EXIT]." in t for t in texts)
    assert any("an edge enters a mount by its own handle." in text for text in texts)


def test_mounts_of_another_workflow_are_refused() -> None:
    child, fixed, _ = repair()
    fix = Workflow("elsewhere").include("fix", child)
    parent = Parent()
    parent.wf.edge(parent.look, fix)
    parent.wf.edge(fix[fixed], parent.report)
    found = codes(parent.problems())
    assert found[:2] == ["EDGE_UNKNOWN_TO", "EDGE_UNKNOWN_FROM"]


def test_unreachable_mounts_are_listed_with_the_nodes() -> None:
    """Case: B9."""
    child, fixed, _ = repair()
    parent = Parent()
    fix = parent.wf.include("fix", child)
    parent.wf.edge(fix[fixed], parent.report)
    (problem,) = parent.problems()
    assert problem.code == "NODE_UNREACHABLE"
    assert problem.message == 'no path from "look" to "report", "fix".'


def test_cases_at_an_exit_are_compared_with_what_it_carries() -> None:
    """`wf.route` reads the route of what left; `wf.switch` reads the record `{exit, output}`."""
    child = Workflow("child")

    @child.compute()
    def decide() -> Route[Next]:
        return Route(route=Next.again)

    done = child.exit("done", decide)
    built = child.build(start=decide)
    parent = Parent()
    first = parent.wf.include("first", built)
    second = parent.wf.include("second", built)
    parent.wf.edge(parent.look, first)
    parent.wf.route(first[done], {Next.again: second})
    parent.wf.switch(second[done], "$.output.route", {"again": parent.report, "no": first})
    problems = parent.problems()
    assert codes(problems) == ["EDGE_CASES"] * 3
    assert problems[0].subject == 'workflow "parent", mount "first", exit "done"'
    assert "Add it to wf.route(first[done], {...})." in problems[0].text


def test_all_problems_of_composition_are_told_at_once() -> None:
    parent = Parent()
    fix = parent.wf.include("fix", Repair().build())
    parent.wf.edge(parent.look, fix)
    parent.wf.edge(fix["x"], parent.report)
    parent.wf.exit("done", parent.look)
    assert codes(parent.problems()) == [
        "CHILD_NO_EXIT",
        "EDGE_UNKNOWN_FROM",
        "EXIT_NOT_TERMINAL",
        "NODE_UNREACHABLE",
    ]


def test_the_source_of_a_workflow_is_its_file_unless_said() -> None:
    child, _, _ = repair()
    assert child.source.name == "test_composition.py"


def test_a_typed_exit_carries_its_nodes_type() -> None:
    class Found(BaseModel):
        issue: str

    wf = Workflow("child")

    @wf.compute()
    def find(ctx: Ctx[Any]) -> Found:
        return Found(issue=str(ctx.input))

    done = wf.exit("done", find)
    definition = wf.build(start=find)
    assert definition.exits["done"].codec.declared is Found
    assert done.exit_name == "done"
