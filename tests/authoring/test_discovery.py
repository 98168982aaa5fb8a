"""Names and paths lead to workflow files."""

from pathlib import Path

import pytest

from pi_workflows.authoring.discovery import find, list_names, list_workflows
from pi_workflows.authoring.errors import SourceUnknown
from pi_workflows.protocol.builtins import BUILTINS


class Places:
    """A project and a home with workflow folders."""

    def __init__(self, root: Path) -> None:
        self.project, self.home = root / "project", root / "home"
        self.local = self.project / ".pi" / "workflows"
        self.user = self.home / ".pi" / "agent" / "workflows"
        self.local.mkdir(parents=True)
        self.user.mkdir(parents=True)

    def find(self, reference: str) -> Path:
        return find(reference, self.project, self.home)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("")


def test_a_name_is_the_stem_and_the_project_wins(places: Places) -> None:
    touch(places.local, "triage.workflow.py")
    touch(places.user, "triage.workflow.py", "report.workflow.py")
    assert places.find("triage") == places.local / "triage.workflow.py"
    assert places.find("report") == places.user / "report.workflow.py"


def test_only_regular_files_with_the_suffix_directly_in_the_folder_have_names(
    places: Places,
) -> None:
    touch(places.local, "b.workflow.py", "a.workflow.py", "c.py", ".workflow.py", "notes.md")
    (places.local / "folder.workflow.py").mkdir()
    (places.local / "deep").mkdir()
    touch(places.local / "deep", "d.workflow.py")
    assert list(list_names(places.project, places.home)) == ["a", "b", "monitor"]


def test_folders_that_do_not_exist_offer_no_names(tmp_path: Path) -> None:
    names = list_names(tmp_path / "none", tmp_path / "nowhere")
    assert list(names) == ["monitor"], "a built-in needs no folder"


@pytest.mark.parametrize("reference", ["flows/x.py", "./y.workflow.py", "y.workflow.py"])
def test_a_reference_with_slash_or_suffix_is_a_path_in_the_project(
    places: Places, reference: str
) -> None:
    (places.project / "flows").mkdir()
    touch(places.project, "y.workflow.py", "flows/x.py")
    touch(places.local, "y.workflow.py")
    assert places.find(reference) == (places.project / reference).absolute()


def test_an_absolute_path_stays_as_it_is(places: Places, tmp_path: Path) -> None:
    touch(tmp_path, "z.workflow.py")
    assert places.find(str(tmp_path / "z.workflow.py")) == tmp_path / "z.workflow.py"


@pytest.mark.parametrize(
    "reference", ["a/b", "a\\b", "none.workflow.py", "a/\0", "\0/a", "x/" * 3000]
)
def test_a_path_to_nothing_is_unknown(places: Places, reference: str) -> None:
    with pytest.raises(SourceUnknown, match="there is no workflow file") as caught:
        places.find(reference)
    assert caught.value.code == "SOURCE_UNKNOWN"


def test_an_unknown_name_lists_the_known_ones_nearest_first(places: Places) -> None:
    touch(places.local, "triage.workflow.py")
    touch(places.user, "report.workflow.py")
    with pytest.raises(SourceUnknown) as caught:
        places.find("triaje")
    error = caught.value
    assert error.message == (
        f'there is no workflow named "triaje" in {places.local} or {places.user}.'
        ' Did you mean "triage"? Known workflows: monitor, report, triage.'
    )
    assert error.names == ("monitor", "report", "triage")
    assert error.nearest == ("triage",)


def test_a_file_of_the_name_beside_the_named_ones_is_pointed_at(places: Places) -> None:
    touch(places.project, "greet.workflow.py")
    file = places.project / "greet.workflow.py"
    with pytest.raises(SourceUnknown) as caught:
        places.find("greet")
    assert f" There is {file}: give that path. " in caught.value.message


@pytest.mark.parametrize("name", ["flows", "."])
def test_a_name_that_is_a_folder_is_called_one(places: Places, name: str) -> None:
    (places.project / "flows").mkdir()
    with pytest.raises(SourceUnknown, match="is a folder; name a workflow file in it"):
        places.find(name)


@pytest.mark.parametrize("name", ["n" * 5_000, "\0"])
def test_a_name_that_no_file_can_have_is_unknown(places: Places, name: str) -> None:
    with pytest.raises(SourceUnknown, match="there is no workflow named"):
        places.find(name)


def test_the_empty_name_is_unknown(places: Places) -> None:
    with pytest.raises(SourceUnknown, match=r"Known workflows: monitor\."):
        places.find("")


def test_a_file_takes_the_name_of_a_built_in_but_not_its_exact_reference(places: Places) -> None:
    builtin = BUILTINS["monitor"].file
    assert places.find("monitor") == builtin
    touch(places.user, "monitor.workflow.py")
    assert places.find("monitor") == places.user / "monitor.workflow.py"
    assert places.find("builtin:monitor") == builtin


def test_a_hidden_built_in_is_found_exactly_and_listed_nowhere(places: Places) -> None:
    assert places.find("builtin:wait") == BUILTINS["wait"].file
    assert "wait" not in list_names(places.project, places.home)
    with pytest.raises(SourceUnknown, match='no workflow named "wait"'):
        places.find("wait")


@pytest.mark.parametrize("reference", ["builtin:triage", "builtin:", "builtin:monitor.py"])
def test_an_unknown_built_in_lists_those_there_are(places: Places, reference: str) -> None:
    with pytest.raises(SourceUnknown) as caught:
        places.find(reference)
    assert caught.value.message == (
        f'there is no built-in workflow "{reference}". There is: builtin:monitor.'
    )


def test_what_is_shadowed_is_listed_with_what_shadows_it(places: Places) -> None:
    touch(places.local, "monitor.workflow.py", "triage.workflow.py")
    touch(places.user, "triage.workflow.py")
    assert [
        (found.name, found.origin, found.shadowed_by)
        for found in list_workflows(places.project, places.home)
    ] == [
        ("monitor", "project", None),
        ("triage", "project", None),
        ("triage", "global", places.local / "triage.workflow.py"),
        ("monitor", "builtin", places.local / "monitor.workflow.py"),
    ]


def test_a_path_to_nothing_names_the_workflow_files_beside_it(places: Places) -> None:
    touch(places.project, "b.workflow.py", "a.workflow.py", "notes.txt")
    with pytest.raises(SourceUnknown) as caught:
        places.find("./c.workflow.py")
    said = caught.value.message
    assert said.endswith(" Workflow files in that folder: a.workflow.py, b.workflow.py.")
    with pytest.raises(SourceUnknown, match=r"Workflow files in that folder: none\.$"):
        places.find("nowhere/c.workflow.py")
