"""What a child answers that is asked whether a workflow accepts a change of its settings."""

import sys
from pathlib import Path
from typing import Any, Final

import pytest

from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.authoring.loading import load_file
from pi_workflows.protocol.canonical import JsonObject, JsonValue, digest_hex
from pi_workflows.runner.children import FoundChildren
from pi_workflows.runner.resolver import resolve
from pi_workflows.runner.sources import DISK_SOURCES

SOURCE: Final = """
import threading
from pydantic import BaseModel
from pi_workflows import Settings, Workflow

class Tune(BaseModel):
    lane: str = "normal"
    pace: int = 1

def check(change):
    if change.after.pace == 13:
        raise ValueError(f"{change.actor} may not be unlucky from {change.source}")
    if change.after.pace == 99:
        threading.Event().wait()
    if change.after.pace == 77:
        raise SystemExit(3)

wf = Workflow("tune", settings=Settings(Tune, initial=Tune(), validate_change=check))

@wf.compute()
def node():
    return 1

wf.exit("done", node)
workflow = wf.build(start=node)
"""
PARENT: Final = """
from pi_workflows import Workflow
wf = Workflow("parent")
@wf.compute()
def first():
    return 1
wf.edge(first, wf.include("tune", "./tune.workflow.py"))
workflow = wf.build(start=first)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))  # Loading a file extends it.
    (tmp_path / "tune.workflow.py").write_text(SOURCE)
    (tmp_path / "parent.workflow.py").write_text(PARENT)
    return tmp_path


def ask(project: Path, after: JsonValue, *, mount: str = "", timeout_s: float = 30) -> JsonObject:
    name = "parent" if mount else "tune"
    path = project / f"{name}.workflow.py"
    source = path.read_bytes()
    children = FoundChildren(DISK_SOURCES, project, project)
    definition = compile_definition(load_file(path, source), children, path)
    mounts: list[JsonValue] = [
        {
            "mountPath": at,
            "kind": "file",
            "path": str(it.source),
            "hash": children.hashes[it.source],
        }
        for at, it in definition.mounts.items()
    ]
    request: JsonObject = {
        "schema": "pi-workflows.settings-check.v1",
        "workflowSource": {
            "root": {"kind": "file", "path": str(path), "hash": digest_hex(source)},
            "mounts": mounts,
        },
        "definitionDigest": definition.digest(),
        "mountPath": mount,
        "before": {"lane": "normal", "pace": 1},
        "after": after,
        "actor": "human",
        "source": "cli",
        "patch": [{"op": "replace", "path": "/pace", "value": 2}],
    }
    if isinstance(after, dict) and after.get("lane") == "edited":
        path.write_text(SOURCE + "# edited\n")
    return resolve(request, title_timeout_s=timeout_s)


def pace(number: Any, lane: str = "normal") -> JsonObject:  # noqa: ANN401
    return {"lane": lane, "pace": number}


@pytest.mark.parametrize("mount", ["", "tune"])
def test_a_sound_change_is_accepted_also_of_what_is_included(mount: str, project: Path) -> None:
    assert ask(project, pace(2), mount=mount) == {"outcome": "accepted"}


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (pace("x"), "pace"),
        (pace("2"), "would alter"),
        (pace(13), "ValueError: human may not be unlucky from cli (tune.workflow.py:12)"),
        (pace(99), "took longer than 0.2 s"),
        (pace(77), "SystemExit"),
        (pace(2, "edited"), "has changed since the run was started"),
    ],
    ids=["the model", "an alteration", "the check", "a check that hangs", "an exit", "an edit"],
)
def test_a_change_that_the_workflow_does_not_take_is_refused(
    after: JsonObject, says: str, project: Path
) -> None:
    """Case: B71."""
    answer = ask(project, after, timeout_s=0.2)
    assert (answer["outcome"], answer["code"]) == ("refused", "SETTINGS_REJECTED")
    assert says in str(answer["message"])
