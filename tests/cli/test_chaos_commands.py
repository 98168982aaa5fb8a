"""The chaos commands refuse what makes no sense, in one line, and import nothing for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from pi_workflows.chaos.registry import SCENARIOS
from pi_workflows.cli import chaos_options
from pi_workflows.cli.chaos_options import ReportTo
from pi_workflows.cli.main import root

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke

CONTEXT = click.Context(root)
OPTION = click.Option(["--any"])


def test_the_list_has_every_shipped_scenario(invoke: Invoke) -> None:
    lines = [json.loads(line) for line in invoke("chaos", "list", "--json").stdout.splitlines()]
    assert [line["name"] for line in lines] == list(SCENARIOS)
    text = invoke("chaos", "list").stdout
    for scenario in SCENARIOS.values():
        assert scenario.summary in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "--seeds", "0:10"], "--seeds needs a NAME"),
        (["run", "a", "--seeds", "0:10", "--all"], "exclude each other"),
        (["run", "a", "--nightly"], "leave out NAME"),
        (["run", "a", "--seeds", "10:0"], "is no range"),
        (["run", "a", "--seeds", "10"], "is no range"),
        (["run", "--budget", "fast"], "is no span"),
        (["run", "--budget", "0"], "is no span"),
        (["run", "--report", "xml"], "is no report"),
        (["run", "--report", "text", "--json"], "one report goes to standard output"),
        (["run", "--engine", "warp"], "warp"),
        (["run", "--jobs", "0"], "0"),
        (["run", "no_such_scenario"], "there is no scenario"),
        (["run", "none.py::a"], "there is no file none.py"),
        (["replay", "none.json"], "there is no file none.json"),
        (["replay", "none.json", "--until", "0"], "0"),
        (["replay", "none.json", "--pdb", "--json"], "--pdb talks"),
        (["shrink", "none.json"], "there is no file none.json"),
        (["explain", "none.json"], "there is no file none.json"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_usage_error(
    invoke: Invoke, arguments: list[str], complaint: str
) -> None:
    result = invoke("chaos", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_fails_shows_its_traceback_only_when_asked(
    invoke: Invoke, tmp_path: Path
) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def inner():\n    raise KeyError('x')\ninner()\n")
    plain = invoke("chaos", "run", f"{file}::any")
    debug = invoke("chaos", "run", f"{file}::any", "--debug")
    machine = invoke("chaos", "run", f"{file}::any", "--json")
    assert (plain.exit_code, debug.exit_code, machine.exit_code) == (2, 2, 2)
    assert plain.stderr == f"pi-workflows: {file}:2: KeyError while it is imported: 'x'\n"
    assert "Traceback" in debug.stderr
    assert json.loads(machine.stdout)["error"]["code"] == "USAGE"


def test_spans_seeds_and_reports_are_read_as_they_are_said() -> None:
    assert [chaos_options.span_s(CONTEXT, OPTION, it) for it in ("90", "90s", "5m", "1.5h")] == [
        90,
        90,
        300,
        5_400,
    ]
    assert chaos_options.seeds(CONTEXT, OPTION, "5:7") == range(5, 7)
    assert chaos_options.reports(CONTEXT, OPTION, ("text", "junit:a/b:c.xml")) == (
        ReportTo("text", None),
        ReportTo("junit", Path("a/b:c.xml")),
    )


def test_names_of_scenarios_are_offered_behind_tab() -> None:
    name = next(iter(SCENARIOS))
    offered = chaos_options.scenarios(CONTEXT, OPTION, name[:4])
    assert name in [item.value for item in offered]
    assert offered[-1].type == "file"
