"""Every file that a workflow is made of is recorded, and a run is held to all of them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from pi_workflows.protocol.builtins import FOLDER
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.sources import SourceIdentity
from pi_workflows.runner.launch import (
    Launch,
    LaunchError,
    Pin,
    SourceChanged,
    load_verified,
    parse_launch,
)
from pi_workflows.runner.resolver import resolve
from pi_workflows.runner.wire import Identity

CHILD = """
from pi_workflows import Workflow
wf = Workflow("{name}")
@wf.compute()
def work() -> int:
    return 1
DONE = wf.exit("done", work)
workflow = wf.build(start=work)
"""
PARENT = """
from pi_workflows import Workflow
import repair_flow
wf = Workflow("parent")
@wf.compute()
def look() -> int:
    return 1
a = wf.include("imported", repair_flow.workflow)
b = wf.include("sibling", "./sibling.workflow.py")
c = wf.include("named", "known")
wf.edge(look, a)
wf.edge(a[repair_flow.DONE], b)
wf.edge(b["done"], c)
workflow = wf.build(start=look)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A parent with one child that it imports, one by path and one by name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    named = tmp_path / ".pi" / "workflows"
    named.mkdir(parents=True)
    (tmp_path / "parent.workflow.py").write_text(PARENT)
    (tmp_path / "repair_flow.py").write_text(CHILD.format(name="repair"))
    (tmp_path / "sibling.workflow.py").write_text(CHILD.format(name="sibling"))
    (named / "known.workflow.py").write_text(CHILD.format(name="known"))
    monkeypatch.delitem(sys.modules, "repair_flow", raising=False)
    yield tmp_path
    sys.modules.pop("repair_flow", None)


def resolved(project: Path, workflow: str = "./parent.workflow.py") -> JsonObject:
    answer = resolve(
        {
            "schema": "pi-workflows.resolve-request.v1",
            "projectPath": str(project),
            "workflow": workflow,
            "input": {"command": "true"} if workflow.startswith("builtin:") else None,
            "home": str(project / "home"),
        }
    )
    sys.modules.pop("repair_flow", None)  # The runner is another process.
    return answer


def launch(answer: JsonObject) -> Launch:
    root = cast("JsonObject", answer["source"])
    mounts = cast("list[JsonObject]", answer["mounts"])
    return Launch(
        identity=Identity("run-1", 1, "epoch-1"),
        root=Pin(SourceIdentity.parse(root)),
        mounts={str(mount["mountPath"]): Pin(SourceIdentity.parse(mount)) for mount in mounts},
        definition_digest=str(answer["definitionDigest"]),
    )


def test_every_mount_has_a_source_of_its_own(project: Path) -> None:
    answer = resolved(project)
    assert answer["outcome"] == "resolved", answer
    mounts = cast("list[JsonObject]", answer["mounts"])
    assert {str(mount["mountPath"]): Path(str(mount["path"])).name for mount in mounts} == {
        "imported": "repair_flow.py",
        "named": "known.workflow.py",
        "sibling": "sibling.workflow.py",
    }
    assert {mount["kind"] for mount in mounts} == {"file"}
    assert len({mount["hash"] for mount in mounts}) == 3


def test_an_unchanged_workflow_is_loaded_whole(project: Path) -> None:
    definition = load_verified(launch(resolved(project)))
    assert set(definition.mounts) == {"imported", "sibling", "named"}


@pytest.mark.parametrize(
    "name", ["repair_flow.py", "sibling.workflow.py", ".pi/workflows/known.workflow.py"]
)
def test_an_edited_child_stops_the_run_before_anything_is_imported(
    project: Path, name: str
) -> None:
    """Restored, it is loaded again.

    Case: B45.
    """
    wanted = launch(resolved(project))
    file = project / name
    before = file.read_text()
    (project / "parent.workflow.py").touch()
    file.write_text(before + f"\nopen({str(project / 'imported')!r}, 'w')\n")
    with pytest.raises(SourceChanged, match=rf"{file.name} has changed since the run was started"):
        load_verified(wanted)
    assert not (project / "imported").exists()
    assert "repair_flow" not in sys.modules
    file.write_text(before)
    assert load_verified(wanted).name == "parent"


def test_a_missing_child_stops_the_run(project: Path) -> None:
    """Case: B45."""
    wanted = launch(resolved(project))
    (project / "sibling.workflow.py").unlink()
    with pytest.raises(SourceChanged, match=r"sibling\.workflow\.py cannot be read"):
        load_verified(wanted)


def test_a_file_that_newly_shadows_a_name_changes_nothing_for_a_run(project: Path) -> None:
    home = project / "home" / ".pi" / "agent" / "workflows"
    home.mkdir(parents=True)
    (project / ".pi" / "workflows" / "known.workflow.py").rename(home / "known.workflow.py")
    wanted = launch(resolved(project))
    (project / ".pi" / "workflows" / "known.workflow.py").write_text(CHILD.format(name="other"))
    assert load_verified(wanted).mounts["named"].source == home / "known.workflow.py"


def test_an_imported_module_that_moves_an_include_elsewhere_stops_the_run(project: Path) -> None:
    """Nobody hashes what a workflow imports, but what it includes from there is known."""
    helper = project / "shapes.py"
    helper.write_text("import repair_flow\nchild = repair_flow\nextra = False\n")
    parent = project / "parent.workflow.py"
    text = PARENT.replace("import repair_flow", "import shapes\nrepair_flow = shapes.child")
    parent.write_text(
        text.replace(
            "wf.edge(b['done'], c)" if "b['done']" in text else 'wf.edge(b["done"], c)',
            'wf.edge(b["done"], c)\nif shapes.extra:\n'
            '    wf.edge(c["done"], wf.include("extra", "known"))',
        )
    )
    wanted = launch(resolved(project))
    sys.modules.pop("shapes", None)
    (project / "other_flow.py").write_text(CHILD.format(name="repair"))
    helper.write_text("import other_flow\nchild = other_flow\nextra = False\n")
    with pytest.raises(SourceChanged, match="it includes other files now"):
        load_verified(wanted)
    sys.modules.pop("shapes", None)
    helper.write_text("import repair_flow\nchild = repair_flow\nextra = True\n")
    with pytest.raises(SourceChanged, match='it includes a workflow at "extra" now'):
        load_verified(wanted)
    sys.modules.pop("shapes", None)


def test_a_built_in_is_pinned_by_id_and_revision_wherever_its_file_is(project: Path) -> None:
    """Also one that it includes itself, and that no list offers."""
    answer = resolved(project, "builtin:monitor")
    assert answer["outcome"] == "resolved", answer
    root = cast("JsonObject", answer["source"])
    (mount,) = cast("list[JsonObject]", answer["mounts"])
    assert (root["kind"], root["id"]) == ("builtin", "monitor")
    assert {"mountPath": "pause", "kind": "builtin", "id": "wait"}.items() <= mount.items()
    assert str(FOLDER) not in str(answer["source"]) + str(answer["mounts"])
    assert load_verified(launch(answer)).name == "monitor"


@pytest.mark.parametrize("which", ["root", "mount"])
def test_another_revision_of_a_built_in_stops_the_run_and_both_are_named(
    project: Path, which: str
) -> None:
    """Case: B45."""
    answer = resolved(project, "builtin:monitor")
    (mount,) = cast("list[JsonObject]", answer["mounts"])
    source = mount if which == "mount" else cast("JsonObject", answer["source"])
    current, source["revision"] = source["revision"], "sha256:0123"
    with pytest.raises(SourceChanged) as changed:
        load_verified(launch(answer))
    told = f"builtin:{source['id']} has changed since the run was started"
    assert f"{told} (revision sha256:0123, now {current}). Install the version" in str(
        changed.value
    )


def test_a_built_in_that_is_gone_stops_the_run(project: Path) -> None:
    answer = resolved(project, "builtin:monitor")
    cast("JsonObject", answer["source"])["id"] = "of-old"
    with pytest.raises(SourceChanged, match="has no built-in builtin:of-old"):
        load_verified(launch(answer))


def test_a_source_of_an_unknown_kind_is_no_launch() -> None:
    source: JsonObject = {"kind": "remote", "path": "x", "hash": "y"}
    with pytest.raises(LaunchError, match="malformed"):
        parse_launch(
            {
                "schema": "pi-workflows.runner-launch.v1",
                "protocolVersion": 1,
                "runId": "run-1",
                "generation": 1,
                "runnerEpoch": "e",
                "workflowSource": {
                    "root": {"kind": "file", "path": "a", "hash": "b"},
                    "mounts": [{"mountPath": "m", **source}],
                },
                "definitionDigest": "d",
            }
        )
