"""The count of acceptance cases believes only claims that are well written and stand in tests."""

from pathlib import Path

import pytest

from tools.cases import CASES_MAX, ROOT, UNDER_FAULTS, as_ranges, main, read_tree, report


def project(folder: Path, source: str) -> Path:
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test_claims.py").write_text(source, encoding="utf-8")
    return folder


def test_claim_names_its_test(tmp_path: Path) -> None:
    root = project(
        tmp_path, 'def test_one() -> None:\n    """Holds.\n\n    Case: A3,\n    C8.\n    """\n'
    )
    tally = read_tree(root)
    assert tally.tests == {
        ("A", 3): ["tests/test_claims.py::test_one"],
        ("C", 8): ["tests/test_claims.py::test_one"],
    }
    assert tally.problems == []


def test_multiprocess_tests_and_state_machines_count_too(tmp_path: Path) -> None:
    (tmp_path / "multiproc_tests").mkdir()
    (tmp_path / "multiproc_tests" / "test_kill.py").write_text(
        'async def test_kill() -> None:\n    """Case: D14."""\n', encoding="utf-8"
    )
    root = project(tmp_path, 'class Runs(RuleBasedStateMachine):\n    """Case: B1."""\n')
    assert set(read_tree(root).tests) == {("B", 1), ("D", 14)}


SCENARIO = """
@simulation(promises=("P3",))
def one_winner(s: Stage) -> None:
    \"\"\"Somebody wins.

    Case: A30, C52.
    \"\"\"

    @s.actor()
    async def worker(world: World) -> None:
        pass
"""


def with_scenario(folder: Path, source: str) -> Path:
    scenarios = folder / "pi_workflows" / "chaos" / "scenarios"
    scenarios.mkdir(parents=True)
    (scenarios / "claims.py").write_text(source, encoding="utf-8")
    return folder


def test_claim_of_a_scenario_counts_and_is_shown_before_the_tests(tmp_path: Path) -> None:
    root = project(
        with_scenario(tmp_path, SCENARIO), 'def test_one() -> None:\n    """Case: A30."""\n'
    )
    tally = read_tree(root)
    assert tally.problems == []
    held = ["pi_workflows/chaos/scenarios/claims.py::one_winner"]
    assert tally.scenarios == {("A", 30): held, ("C", 52): held}
    assert tally.shown == {("A", 30), ("C", 52)}
    assert f"  A30   {held[0]}\n        tests/test_claims.py::test_one" in report(tally)


@pytest.mark.parametrize(
    "source",
    [
        SCENARIO.replace("@simulation", "@something_else"),
        'def test_one() -> None:\n    """Case: A30."""\n',
        SCENARIO + '    """Case: A30."""\n\ndef helper() -> None:\n    """Case: A31."""\n',
        SCENARIO.replace("        pass", '        """Case: A30."""'),
        SCENARIO.replace("C52", "C152"),
    ],
    ids=["another decorator", "no decorator", "a helper", "an actor", "no such case"],
)
def test_claim_beside_a_scenario_fails(tmp_path: Path, source: str) -> None:
    assert main(with_scenario(tmp_path, source)) == 1


def test_case_that_only_tests_show_is_named_as_held_by_no_scenario(tmp_path: Path) -> None:
    root = project(
        with_scenario(tmp_path, SCENARIO), 'def test_one() -> None:\n    """Case: A22."""\n'
    )
    missing = read_tree(root).not_under_faults
    assert missing == [case for case in UNDER_FAULTS if case not in {"A30", "C52"}]
    assert report(read_tree(root)).endswith(f"by none: {' '.join(missing)}")


def test_every_case_that_has_to_hold_under_faults_is_held_by_a_scenario() -> None:
    """Not only in the one order of a single test."""
    assert len(set(UNDER_FAULTS)) == 37
    assert read_tree(ROOT).not_under_faults == []


@pytest.mark.parametrize(
    "claim",
    ["A0", "A113", "B91", "C116", "D25", "E1", "A03", "A1-A3", "a1", "A1 A2", "A1, ", "A1,A2"],
)
def test_claim_of_no_known_case_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], claim: str
) -> None:
    root = project(tmp_path, f'def test_one() -> None:\n    """Case: {claim}."""\n')
    assert main(root) == 1
    assert "tests/test_claims.py:1:" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["Cases: A1.", "case: A1.", "Case: A1", "Case A1. Case: none."])
def test_claim_in_another_form_fails(tmp_path: Path, text: str) -> None:
    assert main(project(tmp_path, f'def test_one() -> None:\n    """{text}"""\n')) == 1


def test_claim_outside_a_test_fails_and_is_not_counted(tmp_path: Path) -> None:
    root = project(tmp_path, '"""Case: A1."""\n\ndef make() -> None:\n    """Case: A2."""\n')
    tally = read_tree(root)
    assert tally.tests == {}
    assert len(tally.problems) == 2


def test_report_counts_every_case_of_the_specification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(project(tmp_path, 'def test_one() -> None:\n    """Case: A2."""\n')) == 0
    printed = capsys.readouterr().out
    assert "without a test: A1 A3-A112" in printed
    assert f"total: 1/{sum(CASES_MAX.values())} (A 1/112, B 0/90, C 0/115, D 0/24)" in printed


def test_ranges_are_short() -> None:
    assert as_ranges("D", [1, 2, 3, 5, 9, 10]) == "D1-D3 D5 D9-D10"
