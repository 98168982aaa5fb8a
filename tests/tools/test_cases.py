"""The count of acceptance cases believes only claims that are well written and stand in tests."""

from pathlib import Path

import pytest

from tools.cases import CASES_MAX, as_ranges, main, read_tree


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
