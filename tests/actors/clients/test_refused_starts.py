"""A start that is refused, for every reason there is: told in full, and leaves no row.

The resolver is the real one; only its process is a script in the test's own.
"""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.protocol.frames import encode_frame
from pi_workflows.runner.resolver import resolve
from runtime.process import ExitStatus
from tests.actors.clients.unchanged import SECRET, Untouched

if TYPE_CHECKING:
    from tests.actors.clients.conftest import Front
    from tests.actors.conftest import RunnerEnd

Clock = trio.testing.MockClock

HEAD: Final = """
import threading
from enum import StrEnum
from pydantic import BaseModel
from pi_workflows import Route, Settings, Workflow

class In(BaseModel):
    count: int = 0
    label: str = "none"

class Say(StrEnum):
    yes = "yes"
    no = "no"

class Tune(BaseModel):
    lane: Say = Say.yes

other = Workflow("other")
@other.compute()
def elsewhere() -> int: return 1

def hang(_input): threading.Event().wait(1)
def fail(given): raise ValueError("no name for it")
def tune_wrongly(given): return Tune(lane=given.label)
"""
NODES: Final = """
@wf.compute()
def first() -> int: return 1
@wf.compute()
def second() -> int: return 1
"""
BUILD: Final = "workflow = wf.build(start=first)\n"


def flow(lines: str = "wf.edge(first, second)", options: str = "", build: str = BUILD) -> str:
    """A file with the nodes `first` and `second`."""
    return f'{HEAD}wf = Workflow("flow", input=In{options})\n{NODES}{lines}\n{build}'


def child(exits: str = "wf.exit('done', second)") -> str:
    """A sound file for `flow` to include."""
    lines = f"wf.edge(first, second)\n{exits}"
    return flow(lines).replace('"flow"', '"child"')


def including(more: str = "", **options: str) -> str:
    """A file that goes on with a child after its first node."""
    said = "".join(f", {name}={value}" for name, value in options.items())
    return flow(
        f"mount = wf.include('kid', './child.workflow.py'{said})\n"
        f"wf.edge(first, second)\nwf.edge(second, mount)\n{more}"
    )


SHAPE: Final = """
shape = Workflow("shape", input=In, contract_id="c:2")
@shape.compute()
def end() -> int: return 1
shape.exit("done", end)
contract = shape.build(start=end)
"""
CHOICE: Final = "@wf.compute()\ndef judge() -> Route[Say]: return Route(route=Say.yes)\n"
TALK: Final = "@wf.agent()\ndef ask() -> str: return 'x'\n"
TELL: Final = "@wf.notify()\ndef tell() -> str: return 'x'\n"


@dataclass(frozen=True)
class Refusal:
    """One way to be refused.

    Attributes:
        says: who is to blame, the rule, and what to do; the text has all of it.
        file: of the workflow `flow`.
        child: of the workflow beside it.
    """

    code: str
    says: Sequence[str]
    file: str = field(default_factory=flow)
    child: str = field(default_factory=child)
    workflow: str = "./flow.workflow.py"
    value: JsonValue = None


FLOW: Final = 'workflow "flow"'
KID: Final = 'workflow "flow", mount "kid"'

SOURCES: Final = [
    Refusal("SOURCE_UNKNOWN", ['"nowhere"', "Known workflows: known"], workflow="nowhere"),
    Refusal(
        "SOURCE_UNKNOWN",
        ["gone.workflow.py", "in that folder: child.workflow.py, flow.workflow.py."],
        workflow="./gone.workflow.py",
    ),
    Refusal("SOURCE_UNKNOWN", ['"builtin:nowhere"', "There is: "], workflow="builtin:nowhere"),
    Refusal(
        "SOURCE_NOT_A_WORKFLOW",
        ["flow.workflow.py", 'does not bind "workflow"', "End it with: workflow = wf.build("],
        flow(build=""),
    ),
    Refusal(
        "SOURCE_NOT_A_WORKFLOW",
        ["flow.workflow.py", "not built", "End it with: workflow = wf.build("],
        flow(build="workflow = wf"),
    ),
    Refusal("SOURCE_NOT_A_WORKFLOW", ["is a folder", "name a workflow file in it"], workflow="./"),
    Refusal(
        "SOURCE_NOT_A_WORKFLOW",
        ["notes.txt is no workflow file", "ends with .workflow.py"],
        workflow="./notes.txt",
    ),
    Refusal("SOURCE_FAILED", ["flow.workflow.py:", "ZeroDivisionError"], flow("1 / 0")),
    Refusal("SOURCE_FAILED", ["flow.workflow.py:", "SyntaxError"], flow("def")),
]
VALUES: Final = [
    Refusal(
        "INPUT_REJECTED",
        [FLOW, "input rejected", "count: Input should be a valid integer"],
        value={"count": SECRET},
    ),
    Refusal("NOT_JSON", [f"{FLOW} input at $.count", "got an integer"], value={"count": 1e17}),
    Refusal(
        "TITLE_TIMEOUT",
        [FLOW, "the title callback took longer than", "A title is only a label"],
        flow(options=", title=hang"),
    ),
    Refusal("TITLE_FAILED", [FLOW, "title callback failed", ":"], flow(options=", title=fail")),
    Refusal("TITLE_FAILED", [FLOW, "at most 200"], flow(options=", title='x' * 201")),
    Refusal(
        "SETTINGS_REJECTED",
        [FLOW, "its initial settings could not be made", "Tune: lane: Input should be 'yes' or"],
        flow(options=", settings=Settings(Tune, initial=tune_wrongly)"),
        value={"label": SECRET},
    ),
    Refusal(
        "SETTINGS_REJECTED",
        [FLOW, "its settings are rejected", "lane: Input should be 'yes' or 'no'"],
        flow(options=f", settings=Settings(Tune, initial=lambda: {{'lane': {SECRET!r}}})"),
    ),
    Refusal(
        "SETTINGS_REJECTED",
        [FLOW, "its initial settings took longer than", "use the input alone"],
        flow(options=", settings=Settings(Tune, initial=hang)"),
        value={"label": SECRET},
    ),
    Refusal(
        "NOTIFY_NEEDS_SESSION",
        [FLOW, 'node "tell" (notify)', "Start it from a session."],
        flow(f"{TELL}wf.edge(first, second)\nwf.edge(second, tell)"),
    ),
    Refusal(
        "NODE_CANNOT_RUN",
        [FLOW, 'node "ask" (agent)', "cannot run yet"],
        flow(f"{TALK}wf.edge(first, second)\nwf.edge(second, ask)"),
    ),
]
GRAPHS: Final = [
    Refusal(
        "DEFINITION_INVALID",
        [f'{FLOW}, node "act"', 'declare effect=idempotent("..."), '],
        flow("@wf.action()\ndef act(): ...\nwf.edge(first, second)\nwf.edge(second, act)"),
    ),
    Refusal("DEFINITION_INVALID", [FLOW, "max_steps is a whole"], flow(options=", max_steps=0")),
    Refusal(
        "START_UNKNOWN",
        [FLOW, 'start node "elsewhere" belongs to another workflow', "Start at a node of this"],
        flow(build="workflow = wf.build(start=elsewhere)"),
    ),
    Refusal(
        "EDGE_UNKNOWN_FROM",
        [FLOW, 'source "elsewhere" of wf.edge', "Draw edges between nodes of one workflow"],
        flow("wf.edge(first, second)\nwf.edge(elsewhere, first)"),
    ),
    Refusal(
        "EDGE_UNKNOWN_TO",
        [f'{FLOW}, node "second"', 'target "elsewhere" of wf.edge', "Draw edges between nodes"],
        flow("wf.edge(first, second)\nwf.edge(second, elsewhere)"),
    ),
    Refusal(
        "EDGE_DUPLICATE",
        [f'{FLOW}, node "first"', "already has an edge", "use wf.switch or wf.route"],
        flow("wf.edge(first, second)\nwf.edge(first, first)"),
    ),
    Refusal(
        "NODE_UNREACHABLE",
        [FLOW, 'no path from "first" to "second"', "Draw an edge to it, or remove it."],
        flow(""),
    ),
    Refusal(
        "EXIT_UNKNOWN_NODE",
        [FLOW, '"elsewhere" of wf.exit("done", ...)', "An exit is of a node of its own workflow"],
        flow("wf.edge(first, second)\nwf.exit('done', elsewhere)"),
    ),
    Refusal(
        "EXIT_NOT_TERMINAL",
        [f'{FLOW}, exit "done"', '"first" has an outgoing edge', "An exit is a terminal node"],
        flow("wf.edge(first, second)\nwf.exit('done', first)"),
    ),
    Refusal(
        "EXIT_SHARED_NODE",
        [f'{FLOW}, exit "over"', 'serves exit "done" already', "An exit is a terminal node"],
        flow("wf.edge(first, second)\nwf.exit('done', second)\nwf.exit('over', second)"),
    ),
    Refusal(
        "EDGE_CASES",
        [f'{FLOW}, node "judge"', "no case for Say.no", "Add it to wf.route(judge, {...})"],
        flow(
            f"{CHOICE}wf.edge(first, second)\nwf.edge(second, judge)\n"
            "wf.route(judge, {Say.yes: first})"
        ),
    ),
]
COMPOSITIONS: Final = [
    Refusal(
        "CHILD_NO_EXIT",
        [KID, 'workflow "child" has no exit', 'give it one: wf.exit("done", last_node)'],
        including(),
        child(""),
    ),
    Refusal(
        "CHILD_TERMINAL_WITHOUT_EXIT",
        [KID, 'can end at "third" without an exit', "give every node without an edge an exit"],
        including(),
        child().replace(
            "wf.edge(first, second)",
            "@wf.compute()\ndef third() -> int: return 1\n"
            "wf.on_outcome(first, ok=second, failed=third)",
        ),
    ),
    Refusal(
        "INCLUDE_CYCLE",
        ['mount "back"', '"flow" -> "child" -> "flow"', "Take one of these includes out"],
        including(),
        child("wf.edge(second, wf.include('back', './flow.workflow.py'))"),
    ),
    Refusal(
        "INCLUDE_UNRESOLVED",
        [KID, "there is no workflow file", "gone.workflow.py", "in that folder: child"],
        including().replace("./child", "./gone"),
    ),
    Refusal(
        "INCLUDE_UNRESOLVED",
        [KID, "child.workflow.py does not load", "child.workflow.py:", "ZeroDivisionError"],
        including(),
        child("1 / 0"),
    ),
    Refusal(
        "CONTRACT_MISMATCH",
        [KID, "contract_id is None, not 'c:2'", "or give another contract"],
        including(contract="contract").replace("mount =", f"{SHAPE}mount ="),
    ),
    Refusal(
        "SETTINGS_MAP_WITHOUT_SETTINGS",
        [KID, 'settings for workflow "child", which declares none', "Leave settings= out"],
        including(settings="Tune"),
    ),
    Refusal(
        "EDGE_UNKNOWN_FROM",
        [KID, 'has no exit "over"; it has: done'],
        including("wf.edge(mount['over'], first)"),
    ),
]
REFUSALS: Final = [*SOURCES, *VALUES, *GRAPHS, *COMPOSITIONS]
NAMES: Final = [f"{refusal.code} {number}" for number, refusal in enumerate(REFUSALS, start=1)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one workflow that has a name."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # Loading a file extends it.
    named = tmp_path / ".pi" / "workflows"
    named.mkdir(parents=True)
    (named / "known.workflow.py").write_text(flow())
    (tmp_path / "notes.txt").write_text("no workflow")
    return tmp_path


async def resolving(end: "RunnerEnd") -> ExitStatus:
    """What a resolver does, with less patience for titles."""
    answer = resolve(await end.launch(), title_timeout_s=0.02)
    await end.lines.send(encode_frame(answer))
    return ExitStatus(0, None)


@pytest.mark.parametrize("refusal", REFUSALS, ids=NAMES)
async def test_refused_start_names_place_rule_and_fix_and_leaves_no_row(
    autojump_clock: Clock, front: "Front", project: Path, refusal: Refusal
) -> None:
    """Nothing but the receipt, which has neither the input nor anything of the file.

    Case: B13.
    """
    (project / "flow.workflow.py").write_text(refusal.file)
    (project / "child.workflow.py").write_text(refusal.child)
    front.bench.children(resolving)
    await front.bench.create()
    untouched = Untouched(front.bench)
    wanted = {"workflow": refusal.workflow, "input": refusal.value, "projectPath": str(project)}
    with trio.fail_after(10):
        peer = await front.connect()
        answer = await peer.ask("run.start", wanted, key="start-1")
    assert answer["outcome"] == "rejected", answer
    text = str(answer["error"])
    receipt = answer["receipt"]
    assert isinstance(receipt, dict)
    assert receipt["code"] == refusal.code, text
    for said in refusal.says:
        assert said in text
    assert SECRET not in repr(answer)
    assert "Traceback" not in text
    untouched.assert_only_a_receipt_is_new()


async def test_sound_file_of_these_does_start(
    autojump_clock: Clock, front: "Front", project: Path
) -> None:
    """So it is what was changed of it that is refused."""
    (project / "flow.workflow.py").write_text(including("wf.exit('done', mount['done'])"))
    (project / "child.workflow.py").write_text(child())
    front.bench.children(resolving)
    with trio.fail_after(10):
        peer = await front.connect()
        wanted = {"workflow": "./flow.workflow.py", "projectPath": str(project)}
        answer = await peer.ask("run.start", {**wanted, "input": {"count": 1}})
    assert answer["outcome"] == "accepted", answer
    assert len(front.bench.rows("SELECT run_id FROM runs")) == 1
