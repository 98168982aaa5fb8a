"""The documentation is held against the code: links, commands, codes, workflows, test names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from mypy import api

from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.authoring.loading import load_file
from pi_workflows.chaos.mutations import MUTATIONS
from pi_workflows.chaos.registry import SCENARIOS
from pi_workflows.cli.main import root
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.states import CommandOutcome
from pi_workflows.runner.children import FoundChildren
from pi_workflows.runner.sources import DISK_SOURCES
from runtime.child_environment import child_environment
from store.run_claiming import NEEDS_A_PERSON

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
EXAMPLES: Final = sorted((ROOT / "examples").glob("*.workflow.py"))

FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
SECTION: Final = re.compile(r"^## `pi-workflows ([^`]+)`$", re.MULTILINE)
PROMISE: Final = re.compile(r"^### (P\d+) .*?$(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
CODE: Final = re.compile(r"`([^`]+)`")


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The names of a page's headings as links spell them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(prose(page))
    }


def workflow_blocks() -> Iterator[tuple[str, str]]:
    """Page with number, and text, of each block that builds a workflow."""
    for page in PAGES:
        for number, (language, text) in enumerate(FENCE.findall(page.read_text("utf-8"))):
            if language == "python" and ".build(" in text:
                yield f"{page.stem}_{number}", text


BLOCKS: Final = dict(workflow_blocks())
SCENARIO_BLOCKS: Final = {
    f"{page.stem}_scenario_{number}": text
    for page in PAGES
    for number, (language, text) in enumerate(FENCE.findall(page.read_text("utf-8")))
    if language == "python" and "@scenario" in text
}


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its name after `pi-workflows`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS: Final = dict(commands(root))


def command_sections() -> dict[str, str]:
    """Text of each section of commands.md by the command in its heading, without arguments."""
    _, *sections = SECTION.split(text_of("commands.md"))
    names = [re.sub(r"( \[?[A-Z|]+\]?(\.\.\.)?)+$", "", name) for name in sections[::2]]
    return dict(zip(names, sections[1::2], strict=True))


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in PAGES:
        for link in LINK.findall(prose(page)):
            target, _, anchor = link.partition("#")
            if "://" in link:
                continue
            file = (page.parent / target).resolve() if target else page
            inside = file == ROOT or ROOT in file.parents
            if not inside or not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page.name}: {link}")
    assert not broken


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(LINK.findall(prose(ROOT / "README.md")))
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= linked


def test_every_make_target_that_a_page_or_the_makefile_names_has_a_recipe() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipes = set(re.findall(r"^([a-z-]+):.*\n\t", makefile, re.MULTILINE))
    listed = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    chained = {"install", "install-dev"}  # They only need the stamp of an environment.
    named = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[0].split())
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named |= set(re.findall(r"`make ([a-z-]+)", text))
        for _, block in FENCE.findall(text):
            named |= set(re.findall(r"^make ([a-z-]+)", block, re.MULTILINE))
    assert named == listed
    assert named - chained <= recipes


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert set(command_sections()) == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_stands_in_its_commands_section(name: str) -> None:
    section = command_sections()[name]
    documented = set(re.findall(r"`(--[a-z-]+)`", section))
    options = {
        option
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    assert documented == options


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_argument_stands_in_its_commands_heading(name: str) -> None:
    arguments = [
        parameter.make_metavar(click.Context(COMMANDS[name]))
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Argument)
    ]
    assert f"## `{' '.join(['pi-workflows', name, *arguments])}`" in text_of("commands.md")


def test_every_code_and_exit_code_is_explained() -> None:
    words = set(CODE.findall(text_of("errors.md")))
    assert not {code.value for code in ErrorCode} - words
    rows = {int(row) for row in re.findall(r"^\| (\d+) \|", text_of("errors.md"), re.MULTILINE)}
    assert {int(code) for code in ExitCode} <= rows


def test_every_operation_and_outcome_of_the_protocol_is_documented() -> None:
    words = set(re.findall(r"^\| `([^`]+)` \|", text_of("protocol.md"), re.MULTILINE))
    table = (ROOT / "actors" / "operations.py").read_text(encoding="utf-8")
    operations = set(re.findall(r'"([a-z.]+)": _Operation\(', table))
    assert operations
    assert operations <= words
    assert {outcome.value for outcome in CommandOutcome} <= words


def test_variables_that_nodes_are_said_to_see_reach_them() -> None:
    _, _, rest = text_of("start.md").partition("## Environment and credentials")
    names = re.findall(r"`([A-Z_]+)`", rest.partition("A credential")[0])
    assert {"PATH", "HOME", "LC_", "XDG_"} <= set(names)
    given = {f"{name}X" if name.endswith("_") else name: "1" for name in names}
    small = {name.lower(): "1" for name in names if name.endswith("_PROXY")}
    everything = given | small
    assert child_environment(inherited={**everything, "TOKEN": "1"}) == everything


def test_reasons_of_parking_that_need_a_person_are_explained() -> None:
    words = set(CODE.findall(text_of("concepts.md")))
    assert {reason.value for reason in NEEDS_A_PERSON} <= words


@pytest.mark.parametrize("name", BLOCKS)
def test_a_workflow_in_a_page_builds(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.workflow.py"
    definition = load_file(file, BLOCKS[name].encode())
    nowhere = FoundChildren(DISK_SOURCES, tmp_path, tmp_path)
    assert compile_definition(definition, nowhere, file).digest()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_builds_and_its_name_is_its_files(example: Path) -> None:
    definition = load_file(example, example.read_bytes())
    assert f"{definition.name}.workflow.py" == example.name


def test_workflows_in_pages_are_typed(tmp_path: Path) -> None:
    for name, text in (BLOCKS | SCENARIO_BLOCKS).items():
        (tmp_path / f"{name}.py").write_text(text)
    settings = tmp_path / "mypy.ini"
    settings.write_text(f"[mypy]\nstrict = True\nmypy_path = {ROOT}\nfollow_imports = silent\n")
    cache = ROOT / ".mypy_cache" / "pages"
    output, complaints, status = api.run(
        ["--config-file", str(settings), "--cache-dir", str(cache), str(tmp_path)]
    )
    assert (complaints, status) == ("", 0), output


def test_the_readme_shows_a_workflow_of_ten_lines() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(text for language, text in FENCE.findall(readme) if language == "python")
    assert len([line for line in block.splitlines() if line.strip()]) == 10


def test_every_test_named_in_the_guarantees_exists() -> None:
    known = {
        node.name
        for folder in ("tests", "multiproc_tests")
        for file in (ROOT / folder).rglob("test_*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    named = set(re.findall(r"`(test_\w+)`", text_of("guarantees.md")))
    assert named
    assert not named - known


def test_every_place_in_the_code_named_in_the_guarantees_exists() -> None:
    places = re.findall(r"`([\w/]+\.py): ([\w., ]+)`", text_of("guarantees.md"))
    assert places
    for file, names in places:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        defined = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for name in names.split(", "):
            assert set(name.split(".")) <= defined, f"{file}: {name}"


def promises() -> dict[str, str]:
    """Text of each promise in guarantees.md, by its number."""
    return dict(PROMISE.findall(text_of("guarantees.md")))


def behind(words: str, text: str) -> set[str]:
    """What stands in backquotes behind `- Explored by` and the like."""
    found = re.search(rf"^- {words} (.*?)(?=^- |^$)", text, re.MULTILINE | re.DOTALL)
    return set() if found is None else set(CODE.findall(found[1]))


def test_guarantees_have_every_promise_with_what_keeps_and_what_shows_it() -> None:
    assert set(promises()) == {*(f"P{number}" for number in range(1, 11)), "P12"}
    for number, text in promises().items():
        assert behind("Kept by", text), number
        assert behind("Shown by", text), number


def test_guarantees_name_each_scenario_under_each_promise_that_it_is_for() -> None:
    for number, text in promises().items():
        of_it = {name for name, scenario in SCENARIOS.items() if number in scenario.promises}
        assert behind("Explored by", text) == of_it, number


def test_guarantees_name_each_mutation_under_the_promise_that_it_breaks() -> None:
    for number, text in promises().items():
        of_it = {mutation.name for mutation in MUTATIONS.values() if mutation.promise == number}
        assert behind("Broken on purpose by", text) == of_it, number
    assert {mutation.promise for mutation in MUTATIONS.values()} <= set(promises())
