"""Compilation: one graph out of many workflows, and what stops it."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pi_workflows import Ctx, Definition, DefinitionError, Problem, Workflow
from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.authoring.errors import SourceUnknown
from pi_workflows.authoring.loading import load_file
from pi_workflows.protocol.definition import NODE_ID_CHARS_MAX, DefinitionSnapshot, PlainEdge
from pi_workflows.protocol.states import MountRole
from tests.authoring.test_composition import repair, wrapped


@dataclass
class Files:
    """Workflow files of a folder, as a compiler finds them.

    Attributes:
        loaded: the files that were run, in order.
    """

    folder: Path
    loaded: list[str] = field(default_factory=list)

    def write(self, name: str, body: str = "") -> Path:
        """Write a workflow that begins at a node `first`.

        Args:
            body: what follows it; unsaid, the node is the exit `done`.
        """
        file = self.folder / f"{name}.workflow.py"
        head = f"from pi_workflows import Workflow\nwf = Workflow({name!r})\n"
        file.write_text(f"{head}{_NODE}{body or _EXIT}{_BUILD}")
        return file

    def locate(self, reference: str, including: Path, mount_path: str) -> Path:  # noqa: ARG002
        path = including.parent / f"{reference.removeprefix('./')}"
        if not path.exists():
            raise SourceUnknown(reference, f"there is no workflow file {path.name}.")
        return path

    def load(self, path: Path) -> Definition[Any]:
        self.loaded.append(path.name)
        return load_file(path, path.read_bytes())

    def compile(self, file: Path) -> Definition[Any]:
        return compile_definition(load_file(file, file.read_bytes()), self, file)

    def refused(self, file: Path) -> list[Problem]:
        with pytest.raises(DefinitionError) as caught:
            self.compile(file)
        return list(caught.value.problems)


_NODE = "@wf.compute()\ndef first() -> int:\n    return 1\n"
_EXIT = "wf.exit('done', first)\n"
_BUILD = "workflow = wf.build(start=first)\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(sys, "path", list(sys.path))  # Loading a file extends it.
    return Files(tmp_path)


def outer() -> Definition[Any]:
    """`outer` mounts `middle` at `m`, which mounts `repair` at `fix`."""
    wf = Workflow("outer")

    @wf.compute()
    def begin() -> None:
        pass

    wf.edge(begin, wf.include("m", wrapped("fine", "stuck")))
    return wf.build(start=begin)


def compiled(definition: Definition[Any]) -> Definition[Any]:
    return compile_definition(definition, Files(Path("/nowhere")))


def test_all_nodes_stand_in_one_graph_under_their_paths() -> None:
    definition = compiled(outer())
    assert definition.includes == {}
    assert sorted(definition.nodes) == [
        "begin",
        "m",
        "m/__piw_exit_fine",
        "m/__piw_exit_stuck",
        "m/begin",
        "m/fix",
        "m/fix/__piw_exit_blocked",
        "m/fix/__piw_exit_fixed",
        "m/fix/bad",
        "m/fix/good",
        "m/fix/work",
    ]
    assert definition.edges["m"] == PlainEdge("m/begin")
    assert definition.edges["m/begin"] == PlainEdge("m/fix")
    assert definition.edges["m/fix"] == PlainEdge("m/fix/work")
    assert definition.edges["m/fix/good"] == PlainEdge("m/fix/__piw_exit_fixed")
    assert definition.edges["m/fix/__piw_exit_fixed"] == PlainEdge("m/__piw_exit_fine")
    work = definition.nodes["m/fix/work"]
    assert (work.mount_path, work.local_id) == ("m/fix", "work")
    entry = definition.nodes["m/fix"]
    assert (entry.mount_path, entry.local_id) == ("m", "fix")


def test_a_workflow_without_includes_compiles_to_itself() -> None:
    child, _, _ = repair()
    assert compiled(child) is child


def test_the_snapshot_says_of_mounts_and_transitions_all_that_the_server_needs() -> None:
    snapshot = DefinitionSnapshot.parse(compiled(outer()).snapshot())
    assert {path: mount.max_steps for path, mount in snapshot.mounts.items()} == {
        "m": 9,
        "m/fix": 7,
    }
    assert snapshot.mounts["m/fix"].name == "repair"
    assert snapshot.nodes["m/fix"].role is MountRole.ENTRY
    leaving = snapshot.nodes["m/fix/__piw_exit_fixed"]
    assert (leaving.role, leaving.exit_name) == (MountRole.EXIT, "fixed")
    assert snapshot.nodes["m/fix/work"].mount_path == "m/fix"
    stored = compiled(outer()).snapshot()
    assert stored["mounts"] == [
        {
            "path": "m",
            "name": "middle",
            "startAt": "begin",
            "maxSteps": 9,
            "exits": ["fine", "stuck"],
        },
        {
            "path": "m/fix",
            "name": "repair",
            "startAt": "work",
            "maxSteps": 7,
            "exits": ["blocked", "fixed"],
        },
    ]


def test_one_child_at_two_mounts_is_accepted() -> None:
    """Case: B11."""
    child, fixed, _ = repair()
    wf = Workflow("twice")

    @wf.compute()
    def begin() -> None:
        pass

    first, second = wf.include("first", child), wf.include("second", child)
    wf.edge(begin, first)
    wf.edge(first[fixed], second)
    definition = compiled(wf.build(start=begin))
    assert definition.edges["first/__piw_exit_fixed"] == PlainEdge("second")
    assert {"first/work", "second/work"} <= definition.nodes.keys()


def included(**children: str) -> str:
    """Return lines that include files one after the other, by mount."""
    lines = [
        f"{mount} = wf.include('{mount}', './{file}.workflow.py')"
        for mount, file in children.items()
    ]
    sources = ["first", *(f"{mount}['done']" for mount in children)]
    lines += [
        f"wf.edge({source}, {mount})" for source, mount in zip(sources, children, strict=False)
    ]
    return "\n".join([*lines, f"wf.exit('done', {sources[-1]})", ""])


def test_a_reference_is_loaded_once_for_all_its_mounts(files: Files) -> None:
    files.write("child")
    definition = files.compile(files.write("root", included(a="child", b="child")))
    assert files.loaded == ["child.workflow.py"]
    assert {path: mount.source.name for path, mount in definition.mounts.items()} == {
        "a": "child.workflow.py",
        "b": "child.workflow.py",
    }


def test_a_cycle_of_includes_is_refused_and_its_chain_is_printed(files: Files) -> None:
    """Case: B11."""
    root = files.write("a", included(next="b"))
    files.write("b", included(next="c"))
    files.write("c", included(next="a"))
    (problem,) = files.refused(root)
    assert problem.code == "INCLUDE_CYCLE"
    assert problem.subject == 'workflow "c", mount "next"'
    assert problem.message == 'it includes itself: "a" -> "b" -> "c" -> "a".'
    assert problem.location is not None
    assert problem.location.short == "c.workflow.py:6"


def test_a_file_that_includes_itself_is_a_cycle(files: Files) -> None:
    """Case: B11."""
    (problem,) = files.refused(files.write("a", included(next="a")))
    assert problem.message == 'it includes itself: "a" -> "a".'


def test_a_cycle_is_seen_through_other_spellings_of_a_path(files: Files) -> None:
    (files.folder / "here").symlink_to(files.folder, target_is_directory=True)
    (problem,) = files.refused(files.write("a", included(next="here/a")))
    assert problem.code == "INCLUDE_CYCLE"


def test_an_include_is_resolved_before_the_start_used_or_not(files: Files) -> None:
    """Every problem of every file is told at once."""
    files.write("broken", "1/0\n")
    files.write("wrong", "wf.edge(1, 2)\n")
    problems = files.refused(files.write("root", included(a="missing", b="broken", c="wrong")))
    assert [problem.code for problem in problems] == [
        "INCLUDE_UNRESOLVED",
        "INCLUDE_UNRESOLVED",
        "DEFINITION_INVALID",
        "EXIT_UNKNOWN_NODE",
    ]
    assert problems[2].subject == 'workflow "wrong"'
    assert problems[0].text.startswith(
        '[INCLUDE_UNRESOLVED] workflow "root", mount "a": there is no workflow file'
    )
    assert "ZeroDivisionError" in problems[1].text
    assert "(root.workflow.py:7)" in problems[1].text


def test_a_referenced_child_must_have_the_exits_that_its_parent_uses(files: Files) -> None:
    files.write("child")
    files.write("middle", "wf.exit('over', first)\n")
    root = files.write("root", included(a="middle", b="child").replace("b['done']", "b['x']"))
    problems = files.refused(root)
    assert [problem.code for problem in problems] == ["EDGE_UNKNOWN_FROM", "EXIT_UNKNOWN_NODE"]
    assert problems[0].message == 'workflow "middle" has no exit "done"; it has: over.'
    assert problems[1].message == 'workflow "child" has no exit "x"; it has: done.'


def test_a_referenced_child_without_exits_is_refused(files: Files) -> None:
    """Case: B10."""
    files.write("child", "pass\n")
    problems = files.refused(files.write("root", included(a="child")))
    assert problems[0].code == "CHILD_NO_EXIT"


class Given(BaseModel):
    issue: str


@pytest.mark.parametrize(
    ("contract_id", "exit_name", "given", "difference"),
    [
        ("c.2", "done", None, "contract_id is None, not 'c.2'."),
        (None, "over", None, "its exits are done, not over."),
        (None, "done", Given, "it declares no input type."),
    ],
)
def test_a_child_that_differs_from_its_contract_is_refused(
    files: Files,
    contract_id: str | None,
    exit_name: str,
    given: type[Given] | None,
    difference: str,
) -> None:
    """Case: B12."""
    files.write("child")
    shape: Workflow[Any] = Workflow("shape", contract_id=contract_id, input=given or Any)
    if given is None:
        shape = Workflow("shape", contract_id=contract_id)

    @shape.compute()
    def end() -> int:
        return 1

    done = shape.exit(exit_name, end)
    wf = Workflow("parent")
    mount = wf.include("m", "./child.workflow.py", contract=shape.build(start=end))

    @wf.compute()
    def begin() -> None:
        pass

    wf.edge(begin, mount)
    wf.exit("x", mount[done])
    definition = wf.build(start=begin)
    with pytest.raises(DefinitionError) as caught:
        compile_definition(definition, files, files.folder / "parent.workflow.py")
    (problem,) = caught.value.problems
    assert problem.code == "CONTRACT_MISMATCH"
    assert problem.message == f'workflow "child" differs from its contract: {difference}'


def test_a_contract_gives_its_exits_types_before_the_child_is_there(files: Files) -> None:
    files.write("child")
    shape = Workflow("shape")

    @shape.compute()
    def end(ctx: Ctx[Any]) -> int:
        return int(ctx.input)

    done = shape.exit("done", end)
    wf = Workflow("parent")
    mount = wf.include("m", "./child.workflow.py", contract=shape.build(start=end))

    @wf.compute()
    def begin() -> None:
        pass

    wf.edge(begin, mount)
    wf.exit("x", mount[done])
    definition = wf.build(start=begin)
    assert definition.exits["x"].codec.declared is int
    flat = compile_definition(definition, files, files.folder / "parent.workflow.py")
    assert "m/first" in flat.nodes


def test_a_node_that_lies_too_deep_for_its_id_is_refused_before_anything_runs(
    files: Files,
) -> None:
    """Each mount has a name of 128 characters, which is allowed."""
    mount = "m" * 128

    def nested(levels: int) -> Definition[Any]:
        wf = Workflow(f"level-{levels}")

        @wf.compute()
        def last() -> int:
            return 1

        if not levels:
            wf.exit("done", last)
            return wf.build(start=last)
        inner = wf.include(mount, nested(levels - 1))
        wf.edge(inner["done"], last)
        wf.exit("done", last)
        return wf.build(start=inner)

    deepest = compile_definition(nested(7), files)
    assert max(len(node_id) for node_id in deepest.nodes) < NODE_ID_CHARS_MAX
    with pytest.raises(DefinitionError) as caught:
        compile_definition(nested(8), files)
    assert {problem.code for problem in caught.value.problems} == {"DEFINITION_INVALID"}
    assert "at most 1024 are allowed." in caught.value.message
    assert 'node "last"' in caught.value.message
