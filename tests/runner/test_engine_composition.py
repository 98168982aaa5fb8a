"""Included workflows in the engine loop: their steps, what their code sees, and their bounds."""

from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows import Ctx, Workflow
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.messages import CallResult, Ending, ExitReason
from tests.runner.repairing import RepairIn, child, parent

if TYPE_CHECKING:
    from tests.runner.conftest import Player, ScriptedServer

FAILED = CallResult(outcome=StepOutcome.FAILED, error="ValueError: no (a.workflow.py:3)")
PATH = [
    ("look", "ok"),
    ("fix", "ok"),
    ("fix/attempt", "ok"),
    ("fix/tool", "ok"),
    ("fix/attempt", "ok"),
    ("fix/summary", "ok"),
    ("fix/__piw_exit_fixed", "ok"),
    ("judge", "ok"),
    ("report", "ok"),
]


def test_entry_and_exit_are_steps_of_their_own(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """An exit without a validator costs no commit: it travels with what surrounds it."""
    assert player(parent(), server).play() == Ending(ExitReason.FINISHED)
    assert server.path == PATH
    assert server.commits[1:3] == [
        ["finishAttempt", "startAttempt"],
        ["enterInclude", "startAttempt"],
    ]
    assert ["finishAttempt", "startAttempt", "exitInclude", "startAttempt"] in server.commits
    entry, *_, leaving, _, _ = [step["output"] for step in server.steps][1:]
    assert entry == {
        "schema": "pi-workflows.include-entry.v1",
        "invocation": 1,
        "input": {"issue": "bug 1", "tries": 2},
    }
    assert leaving == {
        "exit": "fixed",
        "output": {"issue": "bug 1", "visits": 1, "seen": ["attempt", "tool"]},
    }
    assert server.finished is not None
    assert server.finished["finalOutput"] == [
        {"issue": "bug 1", "visits": 1, "seen": ["attempt", "tool"]},
        "fix",
        "bug 1",
    ]


def test_a_child_sees_its_current_invocation_only_and_under_local_names(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Neither the parent's outputs nor those of an earlier invocation; visits begin anew.

    That nothing is there at first is asserted by the child itself.

    Case: B24.
    """
    playing = player(parent(rounds=2), server)
    playing.play()
    inside = [call for call in playing.calls if call.node.node_id.startswith("fix/")]
    first = [call for call in inside if call.node.node_id == "fix/attempt"]
    assert [call.visit for call in first] == [1, 2, 1, 2]
    assert [call.input for call in first] == [
        {"issue": f"bug {n}", "tries": 2} for n in (1, 1, 2, 2)
    ]
    assert all(set(call.outputs) <= {"attempt", "tool", "summary"} for call in inside)
    around = next(call for call in playing.calls if call.node.node_id == "report")
    assert set(around.outputs) == {"look", "fix", "judge", "report"}
    invocations = [step["output"] for step in server.steps if step["nodeId"] == "fix"]
    assert [entry["invocation"] for entry in invocations if isinstance(entry, dict)] == [1, 2]


def test_visits_of_the_run_go_on_where_those_of_an_invocation_begin_anew(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """So the effect of a later invocation is another one.

    Case: B32.
    """
    player(parent(rounds=2), server).play()
    starts = [start for start in server.sent("startAttempt") if start["nodeId"] == "fix/tool"]
    assert [start["visit"] for start in starts] == [1, 2]
    keys = [step["output"] for step in server.steps if step["nodeId"] == "fix/tool"]
    assert keys == [f'["run-1","repair.tool","fix/tool",{visit}]' for visit in (1, 2)]


def test_effects_of_one_child_at_two_mounts_have_two_keys(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B32, A47."""
    built, fixed, blocked = child()
    wf = Workflow("twice")

    @wf.compute()
    def begin() -> None:
        pass

    def given(_: Ctx[Any]) -> RepairIn:
        return RepairIn(issue="x")

    first = wf.include("first", built, input=given)
    second = wf.include("second", built, input=given)
    wf.edge(begin, first)
    wf.edge(first[fixed], second)
    wf.edge(first[blocked], second)
    player(wf.build(start=begin), server).play()
    reserved = [(one["nodeId"], one["request"]) for one in server.sent("reserveEffect")]
    request = {"input": {"issue": "x", "tries": 2}, "outputs": {"attempt": {"route": "again"}}}
    assert reserved == [("first/tool", request), ("second/tool", request)]
    keys = {step["output"] for step in server.steps if str(step["nodeId"]).endswith("/tool")}
    assert keys == {
        '["run-1","repair.tool","first/tool",1]',
        '["run-1","repair.tool","second/tool",1]',
    }
    assert server.finished is not None
    assert server.finished["finalOutput"] == server.steps[-1]["output"]
    assert server.path[-1] == ("second/__piw_exit_fixed", "ok")


def test_a_failure_inside_a_child_that_nobody_routes_is_the_runs(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    player(parent(), server, {"fix/attempt": [FAILED]}).play()
    assert server.path == [("look", "ok"), ("fix", "ok"), ("fix/attempt", "failed")]
    assert server.finished is not None
    assert server.finished["status"] == "failed"
    assert server.finished["error"] == FAILED.error


def test_a_failure_that_the_child_routes_leaves_by_the_exit_it_leads_to(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """The exit's validator has the last word on what is carried out."""
    result = CallResult(outcome=StepOutcome.OK, output="no tool")
    playing = player(
        parent(), server, {"fix/tool": [FAILED], "fix/never": [result], "report": [result]}
    )
    playing.play()
    (leaving,) = [s for s in server.steps if s["nodeId"] == "fix/__piw_exit_blocked"]
    assert leaving["output"] == {"exit": "blocked", "output": "NO TOOL"}
    assert server.finished is not None
    assert server.finished["status"] == "completed"


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (None, "InputRejected [INPUT_REJECTED]"),
        ({"issue": 3}, 'NotJsonError [NOT_JSON] workflow "repair" input at $.issue'),
        (object(), 'NotJsonError [NOT_JSON] workflow "repair" input at $'),
    ],
)
def test_a_mapper_that_makes_no_input_of_the_child_fails_the_entry(
    made: Any,  # noqa: ANN401 - wrong on purpose
    error: str,
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    built, fixed, _ = child()
    wf = Workflow("parent")

    @wf.compute()
    def begin() -> None:
        pass

    fix = wf.include("fix", built, input=lambda _ctx: made)
    wf.edge(begin, fix)
    wf.exit("done", fix[fixed])
    player(wf.build(start=begin), server).play()
    assert server.path == [("begin", "ok"), ("fix", "failed")]
    assert server.finished is not None
    assert str(server.finished["error"]).startswith(error)


def test_a_run_stops_at_its_own_bound_without_counting_transitions(
    new_server: "type[ScriptedServer]", player: "type[Player]"
) -> None:
    """Seven authored steps fit into seven; the transitions between them are free.

    Case: B22.
    """
    server = new_server()
    player(parent(max_steps=7), server).play()
    assert server.path == PATH
    server = new_server()
    player(parent(max_steps=6), server).play()
    assert server.finished is not None
    assert str(server.finished["error"]).startswith('MAX_STEPS: node "report" would be step 7;')
    server = new_server()
    player(parent(max_steps=1), server).play()
    assert server.path == [("look", "ok"), ("fix", "ok")]


def test_the_bound_of_a_child_is_one_invocations(
    new_server: "type[ScriptedServer]", player: "type[Player]"
) -> None:
    """A later invocation has it anew.

    Case: B23.
    """
    server = new_server()
    player(parent(rounds=3, child_steps=4), server).play()
    assert server.finished is not None
    assert server.finished["status"] == "completed"
    server = new_server()
    player(parent(child_steps=3), server).play()
    assert server.finished is not None
    assert server.finished["status"] == "failed"
    assert server.finished["error"] == (
        'MAX_STEPS: node "fix/summary" would be step 4 in one invocation of mount "fix"; workflow '
        '"repair" allows 3. Raise max_steps or end the loop earlier.'
    )


@pytest.mark.parametrize("lose_last_reply", [False, True])
def test_a_crash_at_any_boundary_of_a_child_changes_nothing(
    lose_last_reply: bool,  # noqa: FBT001 - a parameter of the test
    new_server: "type[ScriptedServer]",
    player: "type[Player]",
) -> None:
    """Neither what its code sees nor what is recorded, in the second invocation too.

    Case: B43, B24.
    """
    definition = parent(rounds=2, child_steps=4)
    undisturbed = new_server()
    player(definition, undisturbed).play()
    boundary = 0
    while True:
        server = new_server()
        crashed = player(definition, server)
        ending = crashed.play(crash_before=boundary, lose_last_reply=lose_last_reply)
        if ending is not None:
            break
        server.recover()
        if server.finished is None:
            player(definition, server).play()
        assert server.path == undisturbed.path, boundary
        assert [s["output"] for s in server.steps] == [s["output"] for s in undisturbed.steps]
        boundary += 1
    assert boundary > len(undisturbed.steps)
