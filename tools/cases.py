"""Lists which acceptance cases have a test and which do not.

A test claims cases in its docstring: the word `Case:`, ids separated by commas, a full stop, as in
`Case: A3, C8.` A shipped scenario does the same, for every scenario is explored by the tests. The
specification numbers its cases A1-A112 (state), B1-B90 (engine), C1-C115 (server) and D1-D24 (what
joins the parts). A claim of any other number, a claim that is written differently and a claim
outside a test or scenario are errors: nothing may be counted that proves nothing.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent
TEST_FOLDERS: Final = ("tests", "multiproc_tests")
SCENARIO_FOLDER: Final = "pi_workflows/chaos/scenarios"
SCENARIO_MAKERS: Final = frozenset({"scenario", "simulation"})
CASES_MAX: Final = {"A": 112, "B": 90, "C": 115, "D": 24}
KNOWN: Final = {
    f"{part}{number}"
    for part, number_max in CASES_MAX.items()
    for number in range(1, number_max + 1)
}
PART_TITLES: Final = {"A": "state", "B": "engine", "C": "server", "D": "joining the parts"}

UNDER_FAULTS: Final = (
    *("A22", "A23", "A27", *(f"A{number}" for number in range(30, 43)), "A94"),
    *("C2", "C3", "C4", "C5", "C13", "C18", "C19", "C20", "C33", "C34"),
    *("C50", "C51", "C52", "C53", "C54", "C55", "D14", "D21", "D22", "D24"),
)
"""Cases that must hold in every order and whatever fails: a scenario has to claim each of them."""

CLAIM: Final = re.compile(r"\bCase: ((?:[A-Z]\d+, )*[A-Z]\d+)\.(?=\s|$)")
ATTEMPT: Final = re.compile(r"\bCases?:|\bcases?: *[A-D]\d", re.ASCII)

CaseId: TypeAlias = tuple[str, int]
Documented: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Tally:
    """The claims of a tree, per case in file order, and what is wrong with them."""

    tests: dict[CaseId, list[str]] = field(default_factory=dict)
    scenarios: dict[CaseId, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def shown(self) -> set[CaseId]:
        """The cases that a test or a scenario claims."""
        return {*self.tests, *self.scenarios}

    @property
    def not_under_faults(self) -> list[str]:
        """The cases that a scenario has to claim, and none does."""
        held = {f"{part}{number}" for part, number in self.scenarios}
        return [case for case in UNDER_FAULTS if case not in held]


def is_test(node: Documented) -> bool:
    """Says whether pytest collects this definition: a test function or a state machine."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name.startswith("test_")
        case ast.ClassDef():
            return any(ast.unparse(base).endswith("StateMachine") for base in node.bases)
        case ast.Module():
            return False


def is_scenario(node: Documented) -> bool:
    """Says whether this definition is a scenario: a function that one of the makers decorates."""
    makers = () if isinstance(node, ast.Module) else node.decorator_list
    return any(
        isinstance(maker, ast.Call)
        and isinstance(maker.func, ast.Name)
        and maker.func.id in SCENARIO_MAKERS
        for maker in makers
    )


def claimed(docstring: str) -> tuple[list[CaseId], list[str]]:
    """Returns the cases that a docstring claims, in order, and what is wrong with its claims."""
    text = " ".join(docstring.split())
    written = [case for claim in CLAIM.finditer(text) for case in claim[1].split(", ")]
    cases = [(case[0], int(case[1:])) for case in written if case in KNOWN]
    problems = [f"no specification has case {case}" for case in written if case not in KNOWN]
    if len(ATTEMPT.findall(text)) != len(CLAIM.findall(text)):
        problems.append("a claim must read like `Case: A3, C8.`")
    return cases, problems


def read_file(path: Path, root: Path, tally: Tally) -> None:
    """Adds the claims of one file of tests or scenarios to the tally."""
    name = path.relative_to(root).as_posix()
    holds_scenarios = name.startswith(f"{SCENARIO_FOLDER}/")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=name)):
        if not isinstance(node, Documented):
            continue
        cases, problems = claimed(ast.get_docstring(node) or "")
        counts = is_scenario(node) if holds_scenarios else is_test(node)
        if cases and not counts:
            problems.append("a claim stands outside a test or scenario")
        line = getattr(node, "lineno", 1)
        tally.problems.extend(f"{name}:{line}: {problem}" for problem in problems)
        claims = tally.scenarios if holds_scenarios else tally.tests
        for case in cases if counts else ():
            claims.setdefault(case, []).append(f"{name}::{getattr(node, 'name', '')}")


def read_tree(root: Path) -> Tally:
    """Returns the claims of a project: of the files in the test folders, and of its scenarios."""
    tally = Tally()
    for folder in (*TEST_FOLDERS, SCENARIO_FOLDER):
        for path in sorted((root / folder).rglob("*.py")):
            if path.name.endswith(".workflow.py"):
                continue  # What a test runs, or refuses: it need not be Python.
            read_file(path, root, tally)
    return tally


def as_ranges(part: str, numbers: list[int]) -> str:
    """Writes ascending numbers shortly: `A1-A3 A7`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return " ".join(
        f"{part}{span[0]}" if len(span) == 1 else f"{part}{span[0]}-{part}{span[-1]}"
        for span in spans
    )


def report(tally: Tally) -> str:
    """Writes the shown cases with their scenarios and tests, the others, and the totals."""
    lines: list[str] = []
    totals: list[str] = []
    for part, number_max in CASES_MAX.items():
        shown = sorted(number for shown_part, number in tally.shown if shown_part == part)
        missing = [number for number in range(1, number_max + 1) if number not in set(shown)]
        lines.append(f"{part} ({PART_TITLES[part]}): {len(shown)} of {number_max} have a test")
        for number in shown:
            case = part, number
            first, *others = [*tally.scenarios.get(case, []), *tally.tests.get(case, [])]
            lines.append(f"  {part + str(number):<5} {first}")
            lines.extend(f"        {other}" for other in others)
        if missing:
            lines.append(f"  without a test: {as_ranges(part, missing)}")
        totals.append(f"{part} {len(shown)}/{number_max}")
    lines.append(f"total: {len(tally.shown)}/{sum(CASES_MAX.values())} ({', '.join(totals)})")
    lines.append(_faults_line(tally.not_under_faults))
    return "\n".join(lines)


def _faults_line(missing: list[str]) -> str:
    held = f"{len(UNDER_FAULTS) - len(missing)}/{len(UNDER_FAULTS)}"
    rest = f"; by none: {' '.join(missing)}" if missing else ""
    return f"to be held by a scenario: {held}{rest}"


def main(root: Path = ROOT) -> int:
    """Prints the report; returns 1 when a claim is malformed or names no case, else 0."""
    tally = read_tree(root)
    print(report(tally))
    for problem in tally.problems:
        print(problem, file=sys.stderr)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
