"""What holds for every example: how it is started stands in it, and what it may be given."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from pi_workflows.authoring.errors import InputRejected
from pi_workflows.authoring.loading import load_file
from pi_workflows.cli.run_commands import run
from tests.examples.conftest import EXAMPLES

FILES: Final = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("example", FILES, ids=lambda path: path.name)
def test_an_example_says_the_command_that_runs_it(example: Path) -> None:
    docstring, _, _ = example.read_text().partition('"""\n\n')
    assert re.search(rf"^    pi-workflows run examples/{example.name} ", docstring, re.MULTILINE)


@pytest.mark.parametrize("example", FILES, ids=lambda path: path.name)
def test_an_example_refuses_a_field_that_it_does_not_know(example: Path) -> None:
    definition = load_file(example, example.read_bytes())
    with pytest.raises(InputRejected) as caught:
        definition.accept_input({"misspelt": 1})
    assert ("misspelt", "Extra inputs are not permitted") in caught.value.fields


def test_what_an_example_leaves_in_this_repository_by_default_is_ignored_by_git() -> None:
    ignored = (EXAMPLES.parent / ".gitignore").read_text().splitlines()
    written = {
        found for file in FILES for found in re.findall(r'"(\.pi/[^"]+)"', file.read_text())
    }
    assert written == {".pi/reports/service-report.txt"}
    assert "reports/" in ignored


def test_the_input_of_an_example_that_the_help_of_run_shows_is_one_that_it_takes() -> None:
    given = re.findall(r"run (release_report) --input '(.+?)'", run.epilog or "")
    assert given
    for name, text in given:
        example = EXAMPLES / f"{name}.workflow.py"
        assert load_file(example, example.read_bytes()).accept_input(json.loads(text))
