"""The page of guarantees names each shipped scenario under the promises that it is for."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pi_workflows.chaos.registry import SCENARIOS

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "guarantees.md"
PROMISED: Final = {*(f"P{number}" for number in range(1, 11)), "P12"}
SECTION: Final = re.compile(r"^### (P\d+) .*?$(.*?)(?=^##)", re.MULTILINE | re.DOTALL)


def sections() -> Iterator[tuple[str, str]]:
    """Number and text of each promise."""
    yield from SECTION.findall(PAGE.read_text(encoding="utf-8"))


def listed(text: str, begin: str) -> list[str]:
    """What stands in backquotes behind `- Explored by` and the like."""
    found = re.search(rf"^- {begin} (.*?)(?=^- |^$)", text, re.MULTILINE | re.DOTALL)
    return [] if found is None else re.findall(r"`([^`]+)`", found[1])


def test_page_has_every_promise_with_what_keeps_and_what_shows_it() -> None:
    found = dict(sections())
    assert set(found) == PROMISED
    for number, text in found.items():
        assert listed(text, "Kept by"), number
        assert listed(text, "Shown by"), number


def test_page_names_each_scenario_under_each_of_its_promises_in_order() -> None:
    for number, text in sections():
        of_it = sorted(name for name, one in SCENARIOS.items() if number in one.promises)
        assert listed(text, "Explored by") == of_it, number


def test_every_promise_of_a_scenario_is_on_the_page() -> None:
    assert {promise for one in SCENARIOS.values() for promise in one.promises} <= PROMISED
