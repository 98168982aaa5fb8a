"""Workflow files are listed, shown, checked and drawn without a server; their code runs apart."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pi_workflows.protocol.paths import StatePaths
    from tests.cli.conftest import Invoke, Start

ROOT: Final = Path(__file__).resolve().parents[2]
BROKEN: Final = ROOT / "tests" / "cli" / "broken_workflows"
EXAMPLES: Final = ROOT / "examples"

FOUND: Final = {
    "01_syntax": [":5: [SOURCE_FAILED] SyntaxError: '(' was never closed"],
    "02_import_fails": [":3: [SOURCE_FAILED] ModuleNotFoundError: No module named "],
    "03_no_binding": [': [SOURCE_NOT_A_WORKFLOW] 03_no_binding.workflow.py does not bind "work'],
    "04_not_built": [': [SOURCE_NOT_A_WORKFLOW] 04_not_built.workflow.py binds "workflow" to a W'],
    "05_missing_case": [':21: [EDGE_CASES] workflow "missing_case", node "judge": no case for Ne'],
    "06_unreachable": [':18: [NODE_UNREACHABLE] workflow "unreachable": no path from "first" to'],
    "07_no_effect": [':8: [DEFINITION_INVALID] workflow "no_effect", node "send": declare effect'],
    "08_cycle": [':13: [INCLUDE_CYCLE] workflow "cycle", mount "again": it includes itself: "cyc'],
    "09_unknown_child": [":13: [INCLUDE_UNRESOLVED] "],
    "10_many_problems": [
        ':5: [DEFINITION_INVALID] workflow "status": this name is reserved for a command',
        ':5: [DEFINITION_INVALID] workflow "status": max_steps is a whole number',
        ':8: [DEFINITION_INVALID] workflow "status", node "first": a timeout is',
        ':13: [DEFINITION_INVALID] workflow "status", node "second": the effect\'s type is blank',
    ],
}

SOUND: Final = """
from pi_workflows import Workflow
wf = Workflow("{name}")
print("hello from the file")
@wf.compute()
def work() -> int:
    raise AssertionError("no node is run")
DONE = wf.exit("done", work)
workflow = wf.build(start=work)
"""


@pytest.fixture
def project(paths: "StatePaths") -> Path:
    """The current folder, with a workflow that has a name in it and one that is for the user."""
    local, user = Path(".pi/workflows"), paths.home / "other/.pi/agent/workflows"
    for folder in (local, user):
        folder.mkdir(parents=True)
    (local / "triage.workflow.py").write_text(SOUND.format(name="triage"))
    (paths.state_dir / "triage.workflow.py").write_text(SOUND.format(name="other"))
    return local.absolute().parent.parent


def test_ten_broken_files_give_ten_clear_errors_with_file_and_line(invoke: "Invoke") -> None:
    """All of them with one command; every problem of a file at once."""
    files = sorted(BROKEN.glob("*.workflow.py"))
    assert [file.name.removesuffix(".workflow.py") for file in files] == list(FOUND)
    checked = invoke("workflows", "check", *map(str, files))
    assert checked.exit_code == 2
    lines = [line for line in checked.stdout.splitlines() if not line.startswith("  ")]
    wanted = [
        f"{BROKEN / name}.workflow.py{said}"
        for name, problems in FOUND.items()
        for said in problems
    ]
    assert len(lines) == len(wanted)
    for line, beginning in zip(lines, wanted, strict=True):
        assert line.startswith(beginning)
    assert len({re.sub(r"^\S+ ", "", line) for line in lines}) == len(lines), "no two are alike"
    assert checked.stderr == "0 of 10 workflows are sound\n"
    assert "Traceback" not in checked.output


def test_sound_files_are_said_to_be_sound_and_none_of_their_nodes_is_run(
    invoke: "Invoke", project: Path
) -> None:
    """What a file prints while it is imported is not the command's to print."""
    example = EXAMPLES / "await_service.workflow.py"
    checked = invoke("workflows", "check", "triage", str(example), "builtin:wait")
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.splitlines() == [
        'triage: sound: workflow "triage", 1 node',
        f'{example}: sound: workflow "await_service", 9 nodes',
        'builtin:wait: sound: workflow "wait", 2 nodes',
    ]
    assert not (project / ".pi/agent/workflows/host/host.sock").exists()


def test_a_check_for_programs_has_a_document_per_file(invoke: "Invoke", project: Path) -> None:
    del project
    broken = str(BROKEN / "10_many_problems.workflow.py")
    checked = invoke("workflows", "check", "--json", "triage", broken, "absent.workflow.py")
    sound, many, absent = map(json.loads, checked.stdout.splitlines())
    assert checked.exit_code == 2
    assert (sound["file"], sound["ok"], sound["problems"]) == ("triage", True, [])
    assert [problem["line"] for problem in many["problems"]] == [5, 5, 8, 13]
    assert many["problems"][0] == {
        "code": "DEFINITION_INVALID",
        "file": broken,
        "line": 5,
        "message": "this name is reserved for a command; choose another.",
        "subject": 'workflow "status"',
    }
    assert absent["problems"][0]["code"] == "SOURCE_UNKNOWN"


@pytest.mark.parametrize(
    ("text", "exit_code", "said"),
    [
        ("\nwhile True: pass", 1, ":2: [RESOLVER_FAILED] loading the workflow took longer than"),
        ("import os\nos._exit(7)", 2, "ends the interpreter when it is loaded (exit code 7)"),
        ("raise KeyboardInterrupt", 2, ":1: [SOURCE_FAILED] KeyboardInterrupt"),
        ("raise SystemExit(3)", 2, "SystemExit: 3"),
        ("import os\nos.kill(os.getpid(), 9)", 2, "(signal 9)"),
        ("raise ValueError('two\\nlines')", 2, ":1: [SOURCE_FAILED] ValueError: two\n  lines"),
    ],
    ids=["endless", "os._exit", "interrupt", "exit", "kill", "raise"],
)
def test_a_file_that_does_not_come_back_is_told_in_time(
    invoke: "Invoke", paths: "StatePaths", text: str, exit_code: int, said: str
) -> None:
    del paths
    Path("bad.workflow.py").write_text(text)
    limit = ("--timeout", "2") if exit_code == 1 else ()
    checked = invoke("workflows", "check", "bad.workflow.py", *limit)
    assert checked.exit_code == exit_code, checked.output
    assert checked.stdout.startswith("bad.workflow.py:")
    assert said in checked.stdout
    assert "Traceback" not in checked.output


def test_an_interrupt_ends_the_child_and_is_no_traceback(start: "Start") -> None:
    os.mkfifo("pid")
    text = "import os\nopen('pid', 'w').write(str(os.getpid()))\nwhile True:\n    pass"
    Path("endless.workflow.py").write_text(text)
    process = start("workflows", "check", "endless.workflow.py")
    child = int(Path("pid").read_text())
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate()
    assert (process.returncode, printed, errors.strip()) == (130, "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_reader_that_has_seen_enough_ends_the_command(paths: "StatePaths") -> None:
    seen, written = os.pipe()
    os.close(seen)
    command = [sys.executable, "-m", "pi_workflows.cli", "workflows", "check", "builtin:wait"]
    environment = {**os.environ, "HOME": str(paths.home)}
    ran = subprocess.run(
        command, stdout=written, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(written)
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_a_flood_of_output_is_not_kept(invoke: "Invoke", paths: "StatePaths") -> None:
    del paths
    flood = "print('x' * 1_000_000)\n" * 20
    Path("loud.workflow.py").write_text(flood + SOUND.format(name="loud"))
    checked = invoke("workflows", "check", "loud.workflow.py")
    assert (checked.exit_code, len(checked.output.splitlines())) == (0, 1)


def test_the_traceback_is_for_those_who_debug(invoke: "Invoke") -> None:
    file = str(BROKEN / "02_import_fails.workflow.py")
    assert "Traceback" in invoke("workflows", "check", file, "--debug").stderr
    assert "Traceback" in invoke("workflows", "show", file, "--debug").stderr


def test_only_one_form_of_a_graph_can_be_asked_for(invoke: "Invoke") -> None:
    for forms in (("--dot", "--mermaid"), ("--dot", "--json"), ("--mermaid", "--json")):
        asked = invoke("workflows", "graph", "builtin:wait", *forms)
        assert asked.exit_code == 2
        assert "give one of --mermaid, --dot and --json, not several" in asked.output


def test_a_file_that_is_no_python_is_no_unknown_name(
    invoke: "Invoke", paths: "StatePaths"
) -> None:
    del paths
    Path("wrong.txt").write_text("hello")
    checked = invoke("workflows", "check", "wrong.txt", "absent.txt")
    assert "wrong.txt is no workflow file; its name ends with .workflow.py" in checked.stdout
    assert 'there is no workflow named "absent.txt"' in checked.stdout


@pytest.mark.parametrize("command", ["show", "graph"])
def test_a_broken_file_is_refused_with_all_its_problems(invoke: "Invoke", command: str) -> None:
    refused = invoke("workflows", command, str(BROKEN / "10_many_problems.workflow.py"))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.count("[DEFINITION_INVALID]") == 4
    machine = invoke("workflows", command, "nobody", "--json")
    assert machine.exit_code == 2
    error = json.loads(machine.stdout)["error"]
    assert error["code"] == "SOURCE_UNKNOWN"
    assert "Known workflows: monitor" in error["message"]


def test_every_name_is_listed_with_its_place_and_what_shadows_it(
    invoke: "Invoke", project: Path, paths: "StatePaths"
) -> None:
    listed = [
        json.loads(line) for line in invoke("workflows", "list", "--json").stdout.splitlines()
    ]
    winner = str(project / ".pi/workflows/triage.workflow.py")
    shadowed = str(paths.state_dir / "triage.workflow.py")
    assert [(one["name"], one["source"], one["reference"]) for one in listed] == [
        ("triage", "project", "triage"),
        ("triage", "global", shadowed),
        ("monitor", "builtin", "monitor"),
    ]
    assert [one.get("shadowedBy") for one in listed] == [None, winner, None]
    page = invoke("workflows", "list").stdout.splitlines()
    assert page[0].split() == ["NAME", "SOURCE", "WHERE"]
    assert page[2].endswith(f"{shadowed}  shadowed by {winner}")
    assert page[3].split() == ["monitor", "builtin", "builtin:monitor"]


def test_list_runs_no_file_and_loads_no_server_half(invoke: "Invoke", project: Path) -> None:
    (project / ".pi/workflows/bomb.workflow.py").write_text("raise SystemExit(9)")
    listed = invoke("workflows", "list")
    assert listed.exit_code == 0
    assert "bomb" in listed.stdout
    assert not [name for name in sys.modules if name.startswith("workflow_") and "bomb" in name]


def test_show_tells_all_that_is_declared(invoke: "Invoke", project: Path) -> None:
    del project
    text = invoke("workflows", "show", str(EXAMPLES / "await_service.workflow.py")).stdout
    for line in (
        '  check: string, default "test -e service.ready"',
        "  starts at  prepare",
        "  max steps  10000",
    ):
        assert line in text.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["watch/check"] == ["shell", "computed", "idempotent", "monitor.check", "1"]
    assert rows["watch/pause/wait"][-1] == "100"
    assert re.search(r"  watch/pause: wait, builtin:wait, revision sha256:\w+", text)
    own = invoke("workflows", "show", "triage").stdout
    assert "\nexits\n  done: work" in own
    assert "  any JSON" in own


STEERED = """from pi_workflows import Ctx, Route, Settings, Workflow, allow
from enum import StrEnum
from typing import Annotated, Any
from pydantic import BaseModel, Field
class Lane(StrEnum):
    QUICK = "quick"
    SLOW = "slow"
class Kept(BaseModel):
    lane: Lane = Lane.QUICK
    rest: Annotated[float, Field(ge=0, lt=60)] = 1
class Given(BaseModel):
    rounds: Annotated[int, Field(ge=1, le=9)] = 2
    name: Annotated[str, Field(min_length=1)]
kept = Settings(Kept, initial=Kept(), paths=[allow("/lane", read=["human"], replace=["human"])])
wf = Workflow("steered", settings=kept{options})
@wf.settings_route()
def choose(ctx: Ctx[Any]) -> Route[Lane]:
    return Route(route=Lane.QUICK)
@wf.compute()
def end() -> int:
    return 1
wf.route(choose, {{Lane.QUICK: end, Lane.SLOW: end}})
{more}
"""


def test_show_and_graph_tell_ranges_and_all_settings(
    invoke: "Invoke", paths: "StatePaths"
) -> None:
    """Those of an included workflow as well."""
    del paths
    inner = 'wf.exit("done", end)\nworkflow = wf.build(start=choose)'
    Path("inner.workflow.py").write_text(STEERED.format(options="", more=inner))
    outer = 'mount = wf.include("mount", "./inner.workflow.py")\nwf.edge(end, mount)\n'
    build = "workflow = wf.build(start=choose)"
    Path("outer.workflow.py").write_text(
        STEERED.format(options=", input=Given", more=f"{outer}{build}")
    )
    shown = invoke("workflows", "show", "outer.workflow.py")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    for line in (
        "  rounds: integer ≥ 1 ≤ 9, default 2",
        "  name: string length ≥ 1, required",
        '  lane: one of ["quick", "slow"], default "quick"',
        "  rest: number ≥ 0 < 60, default 1",
        "settings that may be changed",
        "settings of mount that may be changed",
    ):
        assert line in lines, shown.stdout
    assert lines.count("  /lane: read by human; replace by human") == 2
    drawn = invoke("workflows", "graph", "outer.workflow.py").stdout
    assert "choose  compute, settings route" in drawn


def test_show_for_programs_is_the_definition(invoke: "Invoke") -> None:
    shown: Any = json.loads(invoke("workflows", "show", "builtin:monitor", "--json").stdout)
    assert shown["workflowName"] == "monitor"
    assert shown["exits"] == {"met": "met", "timed_out": "timed_out"}
    assert shown["inputSchema"]["required"] == ["command"]
    assert shown["source"]["kind"] == "builtin"
    assert shown["definitionSnapshot"]["startAt"] == "begin"


@pytest.mark.parametrize(
    ("option", "first", "last"),
    [
        (None, "triage: starts at work", "  ends the run"),
        ("--mermaid", "flowchart TD", "  start((start)) --> n1"),
        ("--dot", 'digraph "triage" {', "}"),
    ],
)
def test_graph_is_drawn_in_three_languages(
    invoke: "Invoke", project: Path, option: str | None, first: str, last: str
) -> None:
    del project
    drawn = invoke("workflows", "graph", "triage", *([option] if option else []))
    lines = drawn.stdout.splitlines()
    assert (drawn.exit_code, lines[0], lines[-1]) == (0, first, last)
