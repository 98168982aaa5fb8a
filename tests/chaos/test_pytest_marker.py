"""The marker of a test says what to explore, and a wrong one is refused before any test runs."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pi_workflows.chaos import pytest_marker
from pi_workflows.chaos.pytest_marker import marked_by
from pi_workflows.chaos.scene import Scene, scenario


@scenario(engines=("orders", "crash"))
def nothing(s: Scene) -> None:
    """Nothing happens."""
    del s


def test_a_marker_names_engine_and_extent() -> None:
    every = marked_by((nothing,), {"orders": "all", "engine": "crash"}, "t")
    assert (every.engine, every.is_all, every.seeds) == ("crash", True, None)
    some = marked_by((nothing,), {"seeds": 200, "budget_s": 5}, "t")
    assert (some.engine, some.is_all, some.seeds, some.budget_s) == (None, False, range(200), 5)
    assert marked_by((nothing,), {"seeds": range(3, 9)}, "t").seeds == range(3, 9)


@pytest.mark.parametrize(
    ("arguments", "options", "rule"),
    [
        ((), {}, "takes one scenario"),
        ((1,), {}, "takes one scenario"),
        ((nothing, nothing), {}, "takes one scenario"),
        ((nothing,), {"engin": "orders"}, "has no option engin"),
        ((nothing,), {"engine": "procs"}, "is made for orders, crash, not 'procs'"),
        ((nothing,), {"engine": "order"}, "not 'order'; did you mean orders?"),
        ((nothing,), {"orders": "some"}, "orders is 'some'"),
        ((nothing,), {"seeds": 0}, "seeds is range(0, 0)"),
        ((nothing,), {"seeds": "0:9"}, "seeds is '0:9'"),
        ((nothing,), {"seeds": 3, "orders": "all"}, "not both"),
        ((nothing,), {"budget_s": -1}, "budget_s is -1"),
    ],
)
def test_a_wrong_marker_is_refused(
    arguments: tuple[object, ...], options: dict[str, Any], rule: str
) -> None:
    with pytest.raises(pytest.UsageError) as refused:
        marked_by(arguments, options, "test_x.py::test_y")
    assert str(refused.value).startswith("test_x.py::test_y: @pytest.mark.chaos ")
    assert rule in str(refused.value)


def test_the_plugin_imports_nothing_of_the_harness_by_itself() -> None:
    script = (
        "import pytest, sys; before = set(sys.modules); import pi_workflows.chaos.pytest_marker;"
        "print(*sorted(name for name in set(sys.modules) - before if '.' in name))"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["pi_workflows.chaos", "pi_workflows.chaos.pytest_marker"]


def test_the_plugin_is_an_entry_point_of_the_package_by_its_modules_name() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    name = pytest_marker.__name__
    assert tomllib.loads(text)["project"]["entry-points"]["pytest11"] == {name: name}


def pytest_of(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder with the plugin, as a suite of somebody else does."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "pi_workflows.chaos.pytest_marker"),
            *("-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wrong_marker_ends_pytest_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(
        "import pytest\n@pytest.mark.chaos\ndef test_it():\n    pass\n"
    )
    process = pytest_of(tmp_path)
    assert process.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_wrong.py::test_it: @pytest.mark.chaos takes one scenario" in process.stderr
