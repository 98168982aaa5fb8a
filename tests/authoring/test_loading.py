"""Workflow files are read, hashed and executed, and every failure names file and line."""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_workflows import DefinitionError
from pi_workflows.authoring.errors import LoadError, SourceUnknown
from pi_workflows.authoring.loading import DETAIL_CHARS_MAX, load_file, source_identity

ECHO = b"""
from __future__ import annotations
from dataclasses import dataclass
from pydantic import BaseModel
from pi_workflows import Command, Ctx, Workflow, idempotent

class EchoIn(BaseModel):
    text: str
    more: list[Later] = []

class Later(BaseModel):
    count: int

@dataclass
class Out:
    later: Later

wf = Workflow("echo", input=EchoIn, title=lambda i: f"echo {i.text}", max_steps=5)

@wf.shell(effect=idempotent("echo.print"), parse=lambda r: r.stdout.strip(), timeout=10)
def say(ctx: Ctx[EchoIn]) -> Command:
    return Command(command="printf", args=["%s", ctx.input.text])

@wf.compute()
def end() -> Out:
    return Out(Later(count=1))

wf.edge(say, end)
workflow = wf.build(start=say)
"""


@pytest.fixture(autouse=True)
def _imports_are_restored() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def load_failure(path: Path, source: str) -> LoadError:
    with pytest.raises(LoadError) as caught:
        load_file(path, source.encode())
    return caught.value


def test_the_identity_is_the_bytes_and_their_hash(tmp_path: Path) -> None:
    path = tmp_path / "echo.workflow.py"
    path.write_bytes(ECHO)
    assert source_identity(path) == (ECHO, hashlib.sha256(ECHO).hexdigest())


def test_exactly_the_given_bytes_are_executed(tmp_path: Path) -> None:
    path = tmp_path / "echo.workflow.py"
    path.write_text("raise SystemExit")
    definition = load_file(path, ECHO)
    assert definition.name == "echo"
    assert list(definition.nodes) == ["say", "end"]
    assert definition.nodes["end"].codec.label == "Out"
    assert definition.nodes["say"].location.file == str(path)
    accepted = definition.accept_input({"text": "x", "more": [{"count": 1}]})
    assert accepted == {"text": "x", "more": [{"count": 1}]}


def test_each_load_has_a_module_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "echo.workflow.py"
    before = set(sys.modules)
    first, second = load_file(path, ECHO), load_file(path, ECHO)
    assert first is not second
    assert first.digest() == second.digest()
    names = [name for name in set(sys.modules) - before if name.startswith("workflow_")]
    assert len(names) == 2


def test_a_sibling_module_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "piw_sibling_of_a_test.py").write_text("NAME = 'sibling'\n")
    source = ECHO.replace(b'"echo"', b"NAME", 1)
    source = source.replace(
        b"import BaseModel", b"import BaseModel\nfrom piw_sibling_of_a_test import NAME"
    )
    assert load_file(tmp_path / "echo.workflow.py", source).name == "sibling"
    assert sys.path[0] == str(tmp_path)


def test_a_syntax_error_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.workflow.py"
    error = load_failure(path, "x = 1\ny = = 2\n")
    assert error.code == "SOURCE_FAILED"
    assert error.message == "bad.workflow.py:2: SyntaxError: invalid syntax"
    assert (error.file, error.line) == (str(path), 2)


def test_an_exception_on_import_names_the_authors_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.workflow.py"
    error = load_failure(path, "import json\n\njson.loads('x')\n")
    assert error.code == "SOURCE_FAILED"
    assert error.message.startswith("bad.workflow.py:3: JSONDecodeError: Expecting value")
    assert error.line == 3
    assert error.detail is not None
    assert error.detail.startswith("Traceback")
    assert "loading.py" not in error.detail


def test_a_refusal_that_is_not_of_the_graph_is_told_with_its_line_too(tmp_path: Path) -> None:
    """A card is refused where it is made; made at import, it is that line that fails."""
    source = "from pi_workflows import Card\n\nCard(title='\\x00', subject={}, summary='')\n"
    error = load_failure(tmp_path / "card.workflow.py", source)
    assert (error.code, error.line) == ("SOURCE_FAILED", 3)
    assert error.message.startswith("card.workflow.py:3: CardRefused: ")


def test_a_missing_import_and_a_sys_exit_are_failures_too(tmp_path: Path) -> None:
    path = tmp_path / "bad.workflow.py"
    missing = load_failure(path, "\nimport piw_no_such_module\n")
    assert missing.message.startswith("bad.workflow.py:2: ModuleNotFoundError: No module named")
    assert load_failure(path, "raise SystemExit\n").message == "bad.workflow.py:1: SystemExit"


def test_a_failing_sibling_is_the_one_to_blame(tmp_path: Path) -> None:
    sibling = tmp_path / "piw_broken_sibling.py"
    sibling.write_text("x = (\n")
    error = load_failure(tmp_path / "bad.workflow.py", "import piw_broken_sibling\n")
    assert error.message == "piw_broken_sibling.py:1: SyntaxError: '(' was never closed"
    assert error.file == str(sibling)
    sibling.write_text("\n\n1 / 0\n")
    error = load_failure(tmp_path / "bad.workflow.py", "import piw_broken_sibling\n")
    assert error.message == "piw_broken_sibling.py:3: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("source", [b"\xff\xfe", b"a\0b"])
def test_bytes_that_are_no_python_are_refused(tmp_path: Path, source: bytes) -> None:
    with pytest.raises(LoadError) as caught:
        load_file(tmp_path / "bad.workflow.py", source)
    assert caught.value.code == "SOURCE_FAILED"
    assert caught.value.message.startswith("bad.workflow.py:")


def test_a_huge_error_text_is_cut(tmp_path: Path) -> None:
    error = load_failure(tmp_path / "bad.workflow.py", "raise ValueError('x' * 100_000)\n")
    assert len(error.message) < 3_000
    assert error.detail is not None
    assert len(error.detail) <= DETAIL_CHARS_MAX


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 1\n", 'does not bind "workflow"'),
        ("workflow = 3\n", 'binds "workflow" to an int'),
        (
            "from pi_workflows import Workflow\nworkflow = Workflow('x')\n",
            'binds "workflow" to a Workflow that is not built',
        ),
    ],
)
def test_a_file_without_a_built_workflow_is_refused(
    tmp_path: Path, source: str, found: str
) -> None:
    error = load_failure(tmp_path / "bad.workflow.py", source)
    assert error.code == "SOURCE_NOT_A_WORKFLOW"
    assert error.message.startswith(f"bad.workflow.py {found}. End it with: workflow = wf.build(")


def test_a_wrong_definition_says_its_problems_with_lines(tmp_path: Path) -> None:
    source = ECHO.replace(b"effect=idempotent", b"status_detail=3, effect=idempotent")
    source = source.replace(b"wf.edge(say, end)", b"")
    with pytest.raises(DefinitionError) as caught:
        load_file(tmp_path / "echo.workflow.py", source)
    assert [problem.code for problem in caught.value.problems] == [
        "DEFINITION_INVALID",
        "NODE_UNREACHABLE",
    ]
    assert "(echo.workflow.py:20)" in caught.value.message


def test_a_failed_load_leaves_no_module_behind(tmp_path: Path) -> None:
    before = set(sys.modules)
    load_failure(tmp_path / "bad.workflow.py", "1 / 0\n")
    with pytest.raises(DefinitionError):
        load_file(tmp_path / "bad.workflow.py", ECHO.replace(b"wf.edge(say, end)", b""))
    assert not [name for name in set(sys.modules) - before if name.startswith("workflow_")]


def test_a_missing_file_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(SourceUnknown, match="there is no workflow file"):
        source_identity(tmp_path / "none.workflow.py")
    with pytest.raises(SourceUnknown):
        source_identity(tmp_path / "a\0b.workflow.py")


def test_what_is_no_regular_python_file_is_no_workflow(tmp_path: Path) -> None:
    folder = tmp_path / "folder.workflow.py"
    folder.mkdir()
    pipe = tmp_path / "pipe.workflow.py"
    os.mkfifo(pipe)
    text = tmp_path / "notes.md"
    text.write_text("hello")
    for path in (folder, pipe, text):
        with pytest.raises(LoadError) as caught:
            source_identity(path)
        assert caught.value.code == "SOURCE_NOT_A_WORKFLOW"
        assert ("is a folder" in caught.value.message) == (path == folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "echo.workflow.py"
    path.write_bytes(ECHO)
    path.chmod(0)
    with pytest.raises(LoadError, match="cannot be read: Permission denied"):
        source_identity(path)


def test_edited_file_is_compiled_anew(tmp_path: Path) -> None:
    path = tmp_path / "echo.workflow.py"
    first = load_file(path, ECHO)
    again = load_file(path, ECHO)
    edited = load_file(path, ECHO.replace(b"max_steps=5", b"max_steps=6"))
    assert first is not again
    assert [it.snapshot()["maxSteps"] for it in (first, again)] == [
        first.snapshot()["maxSteps"]
    ] * 2
    assert edited.snapshot()["maxSteps"] != first.snapshot()["maxSteps"]
