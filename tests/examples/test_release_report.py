"""The report example reads real repositories of every shape and writes its file at once."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from tests.examples.conftest import PlayExample

Git: TypeAlias = Callable[..., None]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Runs git in `tmp_path/project`, away from the caller's own settings."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "project").mkdir()

    def run(*arguments: str) -> None:
        identity = ("-c", "user.name=Some One", "-c", "user.email=some@example.org")
        command = ["git", "-C", str(tmp_path / "project"), *identity, *arguments]
        subprocess.run(command, check=True, capture_output=True)

    return run


@pytest.fixture
def project(git: Git, tmp_path: Path) -> Path:
    """A repository of five commits by two authors."""
    folder = tmp_path / "project"
    git("init", "--quiet")
    (folder / "sub").mkdir()
    for number in range(1, 6):
        (folder / "sub" / "file.txt").write_text("line\n" * number)
        (folder / f"module {number}.py").write_text("first\nlast without an end")
        git("add", ".")
        author = f"Some One <{'one' if number < 5 else 'two'}@example.org>"
        date = f"2026-01-0{number}T12:00:00Z"
        git("commit", "--quiet", f"--author={author}", f"--date={date}", "-m", f"change {number}")
    return folder


def figures(path: Path, pages: int) -> dict[str, object]:
    return {
        "path": str(path),
        "commits": 5,
        "authors": 2,
        "pages": pages,
        "files": 6,
        "lines": 15,
    }


@pytest.mark.parametrize(("page_commits", "pages"), [(2, 3), (5, 2), (9, 1)])
def test_pages_are_read_until_history_ends(
    play_example: "PlayExample", project: Path, page_commits: int, pages: int
) -> None:
    given = {"project": str(project), "page_commits": page_commits}
    played = play_example("release_report", given)
    report = project / ".pi" / "reports" / "release-report.md"
    assert played.output == figures(report, pages)
    assert played.nodes.count("read_page") == pages
    assert {path.name for path in report.parent.iterdir()} == {report.name}


def test_no_more_commits_are_read_than_asked_for(
    play_example: "PlayExample", project: Path
) -> None:
    given = {"project": str(project), "page_commits": 2, "target_commits": 3}
    output = play_example("release_report", given).output
    assert (output["commits"], output["pages"]) == (3, 2)


@pytest.mark.usefixtures("project")
def test_the_report_is_markdown_at_the_path_of_the_input(
    play_example: "PlayExample", tmp_path: Path
) -> None:
    given = {"project": "project", "output": "out/report.md"}
    output = play_example("release_report", given).output
    assert output["path"] == str(tmp_path / "out" / "report.md")
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.startswith("# project: release report\n")
    assert "shallow" not in text
    for line in (
        "- authors: 2; the busiest made 4",
        "- lines added: 15, removed: 0",
        "| .py | 5 | 10 |",
        "| .txt | 1 | 5 |",
    ):
        assert line in text.splitlines()
    assert "example.org" not in text


def test_writing_again_gives_the_same_file(play_example: "PlayExample", project: Path) -> None:
    first = play_example("release_report", {"project": str(project)})
    text = Path(str(first.output["path"])).read_text()
    second = play_example("release_report", {"project": str(project)})
    assert second.output == first.output
    assert Path(str(second.output["path"])).read_text() == text


def test_a_folder_inside_the_repository_gives_the_same_figures(
    play_example: "PlayExample", project: Path
) -> None:
    output = play_example("release_report", {"project": str(project / "sub")}).output
    assert output == figures(project / "sub" / ".pi" / "reports" / "release-report.md", 1)


def test_a_shallow_clone_is_reported_as_one(
    play_example: "PlayExample", project: Path, git: Git, tmp_path: Path
) -> None:
    git("clone", "--quiet", "--depth=2", project.as_uri(), str(tmp_path / "shallow"))
    output = play_example("release_report", {"project": "shallow"}).output
    assert (output["commits"], output["files"]) == (2, 6)
    text = Path(str(output["path"])).read_text()
    assert "(a shallow clone: there are older ones elsewhere)" in text
    assert "- lines added: 3, removed: 0" in text.splitlines()


def test_a_commit_without_files_has_a_report_too(
    play_example: "PlayExample", git: Git, tmp_path: Path
) -> None:
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "-m", "nothing | yet")
    output = play_example("release_report", {"project": str(tmp_path / "project")}).output
    assert (output["commits"], output["files"], output["lines"]) == (1, 0, 0)


@pytest.mark.parametrize("initialised", [False, True])
def test_without_a_commit_git_says_why(
    play_example: "PlayExample", git: Git, tmp_path: Path, *, initialised: bool
) -> None:
    if initialised:
        git("init", "--quiet")
    played = play_example("release_report", {"project": str(tmp_path / "project")})
    assert played.path == [("find_head", "failed")]
    expected = "does not have any commits yet" if initialised else "not a git repository"
    assert expected in str(played.end["error"])
