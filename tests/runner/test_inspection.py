"""What is told of workflow files that are wrong: all of it, and where."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pi_workflows.runner import late_loading
from pi_workflows.runner.inspection import inspect_workflow
from pi_workflows.runner.resolver import resolve

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

HEAD = """from pi_workflows import Workflow
wf = Workflow("{name}")
@wf.compute()
def first() -> int:
    return 1
@wf.compute()
def orphan() -> int:
    return 1
"""
BUILD = "workflow = wf.build(start=first)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))  # Loading a file extends it.
    return tmp_path


def write(folder: Path, name: str, body: str = "", end: str = BUILD) -> Path:
    file = folder / f"{name}.workflow.py"
    file.write_text(f"{HEAD.format(name=name)}{body}{end}")
    return file


def asked(folder: Path, file: Path) -> "JsonObject":
    return {"projectPath": str(folder), "home": str(folder), "workflow": str(file)}


def inspected(folder: Path, file: Path) -> "JsonObject":
    return inspect_workflow(asked(folder, file))


def told(answer: "JsonObject") -> list[tuple[str, str]]:
    problems = cast("list[dict[str, Any]]", answer["problems"])
    return [(problem["code"], problem["subject"]) for problem in problems]


def test_the_problems_of_a_child_are_told_together_with_those_of_its_parent(
    folder: Path,
) -> None:
    """The child of the child as well, and an exit that neither of them has."""
    write(folder, "grandchild")
    below = 'below = wf.include("below", "./grandchild.workflow.py")\n'
    write(folder, "child", f'{below}wf.exit("done", first)\n')
    body = 'm = wf.include("m", "./child.workflow.py")\nwf.edge(first, m)\n'
    ways = 'wf.edge(m["done"], first)\nwf.edge(m["gone"], first)\n'
    parent = write(folder, "parent", body + ways)
    answer = inspected(folder, parent)
    assert told(answer) == [
        ("NODE_UNREACHABLE", 'workflow "parent"'),
        ("NODE_UNREACHABLE", 'workflow "grandchild"'),
        ("NODE_UNREACHABLE", 'workflow "child"'),
        ("EDGE_UNKNOWN_FROM", 'workflow "parent", mount "m"'),
    ]
    assert '"gone"; it has: done.' in str(answer["problems"])


def test_an_exit_whose_node_is_wrong_is_not_called_unknown_as_well(folder: Path) -> None:
    write(folder, "child", 'wf.edge(first, orphan)\nwf.exit("done", first)\n')
    body = 'm = wf.include("m", "./child.workflow.py")\nwf.edge(first, m)\n'
    parent = write(folder, "parent", f'{body}wf.edge(m["done"], orphan)\n')
    assert told(inspected(folder, parent)) == [
        ("EXIT_NOT_TERMINAL", 'workflow "child", exit "done"')
    ]


def test_an_interrupt_that_a_file_raises_is_told_with_its_line_like_any_error(
    folder: Path,
) -> None:
    file = folder / "stops.workflow.py"
    file.write_text("\nraise KeyboardInterrupt\n")
    (problem,) = cast("list[dict[str, Any]]", inspected(folder, file)["problems"])
    assert problem == {
        "code": "SOURCE_FAILED",
        "message": "KeyboardInterrupt",
        "file": str(file),
        "line": 2,
    }


@pytest.mark.parametrize(("value", "said"), [("3", "to an int."), ("'x'", "to a str.")])
def test_what_is_bound_instead_of_a_workflow_is_named(folder: Path, value: str, said: str) -> None:
    file = folder / "bound.workflow.py"
    file.write_text(f"workflow = {value}\n")
    assert said in str(inspected(folder, file)["problems"])


def test_the_traceback_of_a_wrong_definition_is_the_authors_alone(folder: Path) -> None:
    file = write(folder, "alone")
    for answer in (
        inspected(folder, file),
        resolve(
            {"schema": "pi-workflows.resolve-request.v1", "input": None, **asked(folder, file)}
        ),
    ):
        detail = str(answer["detail"])
        assert "alone.workflow.py" in detail
        assert "pi_workflows/" not in detail


def test_a_file_that_does_not_come_back_is_told_with_its_line(folder: Path) -> None:
    """What it calls of others is not to blame."""
    file = folder / "endless.py"
    file.write_text("\nfound = ask()\n")
    ours: dict[str, Any] = {"late": late_loading.late_answer, "sys": sys}
    source = "def ask(): return late(1.5, sys._getframe())"
    exec(compile(source, late_loading.__file__, "exec"), ours)  # noqa: S102
    names: dict[str, Any] = {"ask": ours["ask"]}
    exec(compile(file.read_text(), str(file), "exec"), names)  # noqa: S102
    late = names["found"]
    (problem,) = late["problems"]
    assert (problem["file"], problem["line"]) == (str(file), 2)
    assert "took longer than 1.5 s" in problem["message"]
    assert f'File "{file}", line 2' in late["detail"]
