"""The scenarios of the documentation can be run as they stand there, and hold."""

import re
from pathlib import Path
from typing import Final

import pytest

from pi_workflows.chaos.discovery import find_all
from pi_workflows.chaos.registry import engine
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Verdict

PAGE: Final = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCKS: Final = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)
SCENARIOS: Final = [text for text in BLOCKS if "@scenario" in text or "@simulation" in text]
WORKFLOWS: Final = {
    found[1]: text for text in BLOCKS if (found := re.search(r'Workflow\("(\w+)"', text))
}


def test_the_page_shows_one_for_a_resource_and_one_for_a_workflow() -> None:
    assert any("@scenario" in text for text in SCENARIOS)
    assert any("@simulation" in text for text in SCENARIOS)


@pytest.mark.parametrize("number", range(len(SCENARIOS)))
def test_a_scenario_of_the_page_holds(number: int, tmp_path: Path) -> None:
    for name, text in WORKFLOWS.items():
        (tmp_path / f"{name}.workflow.py").write_text(text)
    file = tmp_path / "page.py"
    file.write_text(SCENARIOS[number])
    for scenario in find_all(str(file)):
        tallies = engine(scenario.engines[0]).explore(scenario, Wanted(seeds=range(4)))
        assert [tally.verdict for tally in tallies] == [Verdict.HELD], tallies
        assert sum(tally.explored for tally in tallies) == 4


@pytest.mark.parametrize("text", [text for text in SCENARIOS if "@scenario" in text])
def test_a_scenario_of_the_page_needs_no_more_than_25_lines(text: str) -> None:
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) <= 25
