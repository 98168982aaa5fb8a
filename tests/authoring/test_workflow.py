"""What a single declaration may be, and that all that is wrong is said at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pi_workflows import (
    Definition,
    DefinitionError,
    Workflow,
)


def one_node(name: Any = "flow", **options: Any) -> Definition:  # noqa: ANN401 - wrong on purpose
    """Build a workflow of one node."""
    wf: Workflow[Any] = Workflow(name, **options)

    @wf.compute()
    def only() -> int:
        return 1

    return wf.build(start=only)


def refusal(build: Callable[[], object]) -> DefinitionError:
    """Return the error that `build` raises."""
    with pytest.raises(DefinitionError) as caught:
        build()
    return caught.value


@pytest.mark.parametrize(
    "name",
    [
        "answer",
        "cancel",
        "list",
        "pause",
        "resume",
        "status",
        "restart",
        "change-settings",
        "queue-follow-up",
        "remove-follow-up",
    ],
)
def test_a_reserved_name_is_refused_and_a_near_miss_accepted(name: str) -> None:
    """Case: B1."""
    assert "reserved" in refusal(lambda: one_node(name)).message
    assert one_node(f"{name}-1").name == f"{name}-1"
    assert one_node(name.upper()).name == name.upper()


@pytest.mark.parametrize("name", ["", "-x", "a/b", "a" * 129, "a\n", "ä", None, 7])
def test_a_malformed_workflow_name_is_refused(name: object) -> None:
    error = refusal(lambda: one_node(name))
    assert error.code == "DEFINITION_INVALID"
    assert "1 to 128" in error.message


def test_a_workflow_without_nodes_and_start_is_refused() -> None:
    """Case: B3."""
    wf = Workflow("flow")
    error = refusal(lambda: wf.build(start=None))  # type: ignore[arg-type]
    assert [problem.code for problem in error.problems] == ["DEFINITION_INVALID"] * 2
    assert "no nodes" in error.message
    assert "start is missing" in error.message


@pytest.mark.parametrize("max_steps", [0, -1, 1.5, True, "3", None, 2**53])
def test_max_steps_is_a_positive_whole_number(max_steps: object) -> None:
    """Case: B3."""
    assert "max_steps" in refusal(lambda: one_node(max_steps=max_steps)).message


def test_max_steps_is_100_when_unsaid() -> None:
    assert one_node().max_steps == 100
    assert one_node(max_steps=1).max_steps == 1


@pytest.mark.parametrize(
    "options",
    [
        {"title": 3},
        {"title": lambda: "x"},
        {"contract_id": ""},
        {"contract_id": "a b"},
        {"contract_id": "x" * 129},
        {"contract_id": "-x"},
        {"contract_id": 3},
        {"presentation_prompt": 3},
        {"presentation_prompt": lambda _value: "x"},
        {"source": 3},
        {"input": object()},
    ],
)
def test_an_option_of_the_wrong_kind_is_refused(options: dict[str, Any]) -> None:
    """Case: B6."""
    error = refusal(lambda: one_node(**options))
    assert [problem.code for problem in error.problems] == ["DEFINITION_INVALID"]
    assert next(iter(options)) in error.message


def test_a_title_callback_may_take_the_input_alone_or_with_the_name() -> None:
    alone = one_node(title=lambda given: f"of {given}").title
    both = one_node(title=lambda given, name: f"{name} of {given}").title
    assert callable(alone)
    assert callable(both)
    assert alone("x", "flow") == "of x"
    assert both("x", "flow") == "flow of x"
    assert one_node(title="text").title == "text"


def test_a_contract_id_and_a_name_may_have_128_characters() -> None:
    assert one_node(contract_id="x" * 128).contract_id == "x" * 128
    assert one_node(contract_id="a.b_c:d-e").contract_id == "a.b_c:d-e"
    assert one_node("x" * 128).name == "x" * 128


def test_a_contract_id_is_part_of_the_snapshot_and_an_unsaid_one_is_not() -> None:
    assert one_node(contract_id="c:1").snapshot()["contractId"] == "c:1"
    assert "contractId" not in one_node().snapshot()


def test_other_options_arrive_in_the_definition() -> None:
    definition = one_node(contract_id="c:1", presentation_prompt="Say it.", source="/x/flow.py")
    assert definition.contract_id == "c:1"
    assert definition.presentation_prompt == "Say it."
    assert definition.source == Path("/x/flow.py")


def test_every_problem_is_reported_at_once_with_its_line() -> None:
    title: Any = 3
    wf = Workflow("list", max_steps=0, title=title)

    @wf.action()
    def say() -> None: ...

    target: Any = "x"
    wf.edge(say, target)
    error = refusal(lambda: wf.build(start=say))
    assert len(error.problems) == 5
    lines = [p.location.line for p in error.problems if p.location is not None]
    assert lines == sorted(lines)
    assert len(set(lines)) == 3
    assert "(test_workflow.py:" in str(error)
    assert str(error).count("DefinitionError [DEFINITION_INVALID]") == 5


def test_a_refused_build_may_be_repeated_and_says_the_same() -> None:
    wf = Workflow("flow")

    @wf.action()
    def say() -> None: ...

    first, second = (refusal(lambda: wf.build(start=say)) for _ in range(2))
    assert len(first.problems) == len(second.problems) == 1


def test_a_built_workflow_takes_nothing_more() -> None:
    wf = Workflow("flow")

    @wf.compute()
    def only() -> int:
        return 1

    definition = wf.build(start=only)
    for later in (lambda: wf.edge(only, only), lambda: wf.compute()(one_node)):
        assert "built already" in refusal(later).message
    with pytest.raises(AttributeError):
        definition.name = "other"  # type: ignore[misc]
