"""Routing: the one function with which the runner goes on and the server checks that it may."""

from typing import Final

import pytest

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import (
    DefinitionSnapshot,
    Edge,
    EndRun,
    GoTo,
    PlainEdge,
    SwitchEdge,
    case_text,
    result_record,
    route,
)
from pi_workflows.protocol.states import RunStatus, StepOutcome

ALL_OUTCOMES: Final = {outcome.value: "next" for outcome in StepOutcome}
BY_OUTCOME: Final = SwitchEdge("$result.outcome", ALL_OUTCOMES)
EDGES: Final = [None, PlainEdge("next"), BY_OUTCOME, SwitchEdge("$.kind", {"a": "next"})]
SNAPSHOT: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "tally",
    "startAt": "count",
    "maxSteps": 3,
    "nodes": [
        {"id": "count", "type": "compute"},
        {"id": "send", "type": "action", "effect": {"type": "mail", "recovery": "manual"}},
    ],
    "edges": [
        {"from": "count", "to": "send"},
        {"from": "send", "switch": {"on": "$.ok", "cases": {"true": "count"}}},
    ],
    "mounts": [],
}


def follow(edge: Edge | None, outcome: StepOutcome, output: JsonValue = None) -> GoTo | EndRun:
    error = None if outcome is StepOutcome.OK else "it broke"
    return route("judge", edge, outcome, output, result_record(outcome, output, error))


@pytest.mark.parametrize("edge", EDGES)
def test_cancelled_never_routes(edge: Edge | None) -> None:
    """Not even through a switch that has a case for it.

    Case: B19.
    """
    assert follow(edge, StepOutcome.CANCELLED) == EndRun(RunStatus.CANCELLED, "it broke")


def test_plain_edge_is_followed_after_ok_only() -> None:
    """Case: B15."""
    edge = PlainEdge("next")
    assert follow(edge, StepOutcome.OK) == GoTo("next")
    assert follow(edge, StepOutcome.FAILED) == EndRun(RunStatus.FAILED, "it broke")
    assert follow(edge, StepOutcome.TIMED_OUT) == EndRun(RunStatus.TIMED_OUT, "it broke")


def test_node_without_an_edge_completes_the_run() -> None:
    assert follow(None, StepOutcome.OK) == EndRun(RunStatus.COMPLETED, None)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (3, "3"), (3.0, "3"), ("clean", "clean")]
)
def test_switch_matches_by_json_text(value: str | float, text: str) -> None:
    """Case: B16."""
    assert case_text(value) == text
    edge = SwitchEdge("$.kind", {text: "next"})
    assert follow(edge, StepOutcome.OK, {"kind": value}) == GoTo("next")


@pytest.mark.parametrize(
    "output", [None, {}, {"kind": None}, {"kind": [1]}, {"kind": {"a": 1}}, {"kind": "b"}, 7]
)
def test_value_without_a_case_fails_the_run(output: JsonValue) -> None:
    """Null, a list, an object, an unknown word, or nothing at the path.

    Case: B17.
    """
    end = follow(SwitchEdge("$.kind", {"a": "next"}), StepOutcome.OK, output)
    assert isinstance(end, EndRun)
    assert end.status is RunStatus.FAILED
    assert end.error is not None
    assert end.error.startswith('ROUTING: node "judge": $.kind ')
    assert end.error.endswith(("Add a case for it.", "a switch needs one of them there."))


@pytest.mark.parametrize("outcome", [StepOutcome.FAILED, StepOutcome.TIMED_OUT])
def test_failures_are_routed_only_by_a_switch_over_the_outcome(outcome: StepOutcome) -> None:
    """Without a case for it the run ends as the step did.

    Case: B18, B20.
    """
    assert follow(BY_OUTCOME, outcome) == GoTo("next")
    missing = SwitchEdge("$result.outcome", {"ok": "next"})
    assert follow(missing, outcome) == EndRun(RunStatus(outcome.value), "it broke")
    elsewhere = SwitchEdge("$result.error", {"it broke": "next"})
    assert follow(elsewhere, outcome) == EndRun(RunStatus(outcome.value), "it broke")


def test_paths_start_at_output_or_result() -> None:
    for path in ("$.a.b", "$output.a.b", "$result.output.a.b"):
        edge = SwitchEdge(path, {"x": "next"})
        assert follow(edge, StepOutcome.OK, {"a": {"b": "x"}}) == GoTo("next")


def test_snapshot_is_read_as_data() -> None:
    found = DefinitionSnapshot.parse(SNAPSHOT)
    assert (found.name, found.start_at, found.max_steps) == ("tally", "count", 3)
    assert found.nodes["count"].effect_type is None
    assert (found.nodes["send"].effect_type, found.nodes["send"].effect_recovery) == (
        "mail",
        "manual",
    )
    assert found.edges == {
        "count": PlainEdge("send"),
        "send": SwitchEdge("$.ok", {"true": "count"}),
    }


@pytest.mark.parametrize(
    "spoiled",
    [
        {"schema": "another"},
        {"nodes": [{"type": "compute"}]},
        {"edges": [{"from": "count"}]},
        {"edges": [{"from": "count", "switch": {}}]},
        {"nodes": None},
        {"edges": ["count"]},
        {"mounts": [{"path": "fix"}]},
    ],
)
def test_malformed_snapshot_is_refused(spoiled: JsonObject) -> None:
    with pytest.raises(ValueError, match="definition snapshot"):
        DefinitionSnapshot.parse({**SNAPSHOT, **spoiled})
