"""What the tree promises about itself is counted here, so that nobody has to remember it."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("pi_workflows", "actors", "runtime", "store")
TEST_FOLDERS: Final = ("tests", "multiproc_tests")
PROGRAM_FOLDERS: Final = ("tools", "bench", "examples")

# Workflow files that are wrong on purpose; one of them is no Python.
BROKEN: Final = ROOT / "tests" / "cli" / "broken_workflows"

LINE_LENGTH_MAX: Final = 99
FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60

# Packages whose modules nobody names: whoever needs them looks into the folder.
SEARCHED_PACKAGES: Final = ("pi_workflows.chaos.scenarios",)

# Names that say nothing about what is inside.
VAGUE_NAMES: Final = {
    "base",
    "common",
    "handler",
    "handlers",
    "helper",
    "helpers",
    "util",
    "utils",
}

# The production side of the World: the only modules of actors/, runtime/ and store/ that may ask
# the machine for time, chance, processes or its environment.
WORLD_MODULES: Final = {
    "runtime/chaos/forbidden.py",  # Names what is taken away from a scenario.
    "runtime/clock.py",  # The wall clock.
    "runtime/private_files.py",  # Names of temporary files.
    "runtime/child_environment.py",  # What children inherit of the environment.
    "runtime/program.py",  # Starting programs.
    "runtime/template_program.py",  # Whether there is a template, and its secret.
    "runtime/simulation/chance.py",  # Chance from a seed.
    "runtime/world.py",  # Ids, secrets and jitter.
}
MACHINE_MODULES: Final = {"random", "secrets", "subprocess", "time", "uuid"}
MACHINE_NAMES: Final = {
    "datetime.now",
    "datetime.today",
    "datetime.utcnow",
    "os.environ",
    "os.getenv",
    "os.urandom",
    "trio.lowlevel.open_process",
    "trio.run_process",
}

# Statements are written in capitals; shapes no sentence has are found in any case.
SQL_TEXT: Final = re.compile(
    r"""\A\s*(?:
        (?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|SAVEPOINT|RELEASE|ATTACH|DETACH)\s
      | (?:BEGIN|COMMIT|ROLLBACK|VACUUM|REINDEX|ANALYZE)\s*(?:;|\Z)
      | WITH\s+(?:RECURSIVE\s+)?\w+\s*(?:\([^)]*\)\s*)?AS\s
      | (?i:begin\s+(?:immediate|exclusive|deferred)\b)
      | (?i:rollback\s+to\b)
      | (?i:insert\s+(?:or\s+\w+\s+)?into\s+\w+)
      | (?i:update\s+\w+\s+set\s)
      | (?i:delete\s+from\s+\w+\s*(?:where\b|;|\Z))
      | (?i:select\s+.+\sfrom\s+\w+\s*(?:where|order|group|limit|join|;|\Z))
    )""",
    re.VERBOSE | re.DOTALL,
)
SQL_CALLS: Final = {"execute", "executemany", "executescript"}


def python_files(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if path.parent != BROKEN)


def listed(problems: Iterable[str]) -> str:
    return "\n".join(["", *sorted(problems)])


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


TREES: Final = {
    path: ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for path in python_files(*PACKAGES, *TEST_FOLDERS, *PROGRAM_FOLDERS)
}


def trees_of(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for path, tree in TREES.items():
        if path.relative_to(ROOT).parts[0] in folders:
            yield shown(path), tree


def docstring_nodes(tree: ast.Module) -> set[ast.expr]:
    """Returns the nodes of all docstrings: prose, whatever it begins with."""
    return {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields line and value of each string literal, parts of f-strings too, but no docstrings."""
    prose = docstring_nodes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            yield node.lineno, node.value


def imported_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the line and dotted name of everything a module imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def test_files_and_functions_are_short() -> None:
    problems = []
    for path, tree in TREES.items():
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > FILE_LINES_MAX:
            problems.append(f"{shown(path)} has {len(lines)} lines")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    problems.append(f"{shown(path)}:{node.lineno} {node.name} has {length} lines")
    assert not problems, listed(problems)


def test_lines_are_short() -> None:
    sources = [*TREES, *(ROOT / "store").rglob("*.sql"), *(ROOT / "examples").rglob("*.sh")]
    problems = [
        f"{shown(path)}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LINE_LENGTH_MAX
    ]
    assert not problems, listed(problems)


def test_every_module_opens_with_one_sentence() -> None:
    problems = [
        shown(path)
        for path, tree in TREES.items()
        if not (ast.get_docstring(tree) or "").partition("\n")[0].endswith(".")
    ]
    assert not problems, listed(problems)


def test_no_module_is_dead() -> None:
    """A module is alive when something imports it or names it, to start it or to load it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = [project["scripts"], *project["entry-points"].values()]
    alive = {script.partition(":")[0] for each in entries for script in each.values()}
    for tree in TREES.values():
        alive.update(name for _, name in imported_names(tree))
        alive.update(text.partition(":")[0] for _, text in texts(tree))
    modules = {dotted(path) for path in python_files(*PACKAGES) if path.name != "__init__.py"}
    dead = [
        name
        for name in modules
        if name.removesuffix(".__main__") not in alive
        and name.rpartition(".")[0] not in SEARCHED_PACKAGES
    ]
    assert not dead, listed(dead)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "  \n  INSERT INTO runs VALUES (:run_id)",
        "UPDATE runs SET status = :status",
        "DELETE FROM runs",
        "WITH recent AS (SELECT 1) SELECT * FROM recent",
        "BEGIN IMMEDIATE",
        "begin immediate",
        "COMMIT",
        "ROLLBACK;",
        "ROLLBACK TO command",
        "SAVEPOINT command",
        "RELEASE command",
        "PRAGMA journal_mode",
        "select * from runs where run_id = ?",
    ],
)
def test_sql_is_recognised(text: str) -> None:
    assert SQL_TEXT.match(text)


@pytest.mark.parametrize(
    "text",
    [
        "Select a run from the list and press Enter.",
        "select",
        "Update the settings with care",
        "commit",
        "The COMMIT failed",
        "Delete from disk what is older",
        "begin",
    ],
)
def test_prose_is_not_taken_for_sql(text: str) -> None:
    assert not SQL_TEXT.match(text)


def sql_in(name: str, tree: ast.Module) -> Iterator[str]:
    for line, text in texts(tree):
        if SQL_TEXT.match(text):
            yield f"{name}:{line} holds SQL: {text.strip()[:40]!r}"
    for line, imported in imported_names(tree):
        if imported in {"apsw", "sqlite3"}:
            yield f"{name}:{line} imports {imported}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in SQL_CALLS:
            yield f"{name}:{node.lineno} runs a statement: .{node.attr}"


def test_sql_and_transaction_control_stay_in_the_store() -> None:
    """Nothing outside `store/` holds SQL text, runs statements or imports a database.

    Case: D20.
    """
    problems = [
        f"{shown(path)} lies outside store/"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.sql")
        if package != "store"
    ]
    for name, tree in trees_of("pi_workflows", "actors", "runtime"):
        problems.extend(sql_in(name, tree))
    assert not problems, listed(problems)


@pytest.mark.parametrize(
    "source",
    [
        'QUERY = "SELECT run_id FROM runs"',
        'statement = f"DELETE FROM {table}"',
        "import apsw",
        "from sqlite3 import connect",
        "database.execute(STATEMENT)",
    ],
)
def test_sql_outside_the_store_is_refused(source: str) -> None:
    """Every way of reaching the database past the store is found.

    Case: D20.
    """
    assert len(list(sql_in("actors/scheduler.py", ast.parse(source)))) == 1


def machine_use(name: str, tree: ast.Module) -> Iterator[str]:
    for line, imported in imported_names(tree):
        if imported in MACHINE_MODULES or imported in MACHINE_NAMES:
            yield f"{name}:{line} imports {imported}"
    suffixes = tuple(f".{machine_name}" for machine_name in MACHINE_NAMES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and f".{ast.unparse(node)}".endswith(suffixes):
            yield f"{name}:{node.lineno} uses {ast.unparse(node)}"


def test_only_the_world_asks_the_machine() -> None:
    """Time, chance, processes and the environment reach the server half through the World."""
    problems: list[str] = []
    users = set()
    for name, tree in trees_of("actors", "runtime", "store"):
        found = list(machine_use(name, tree))
        if name not in WORLD_MODULES:
            problems.extend(found)
        elif found:
            users.add(name)
    problems.extend(f"{name} needs no exception" for name in WORLD_MODULES - users)
    assert not problems, listed(problems)


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from uuid import uuid4",
        "import random as chance",
        "home = os.environ",
        "at = datetime.datetime.now(UTC)",
        "await trio.lowlevel.open_process(command)",
    ],
)
def test_asking_the_machine_is_found(source: str) -> None:
    assert list(machine_use("store/runs.py", ast.parse(source)))


def sleeps(name: str, source: str) -> Iterator[str]:
    jumping = name.startswith("tests/") and re.search(r"\b(autojump_clock|MockClock)\b", source)
    refused = {"time.sleep"} if jumping else {"time.sleep", "trio.sleep", "trio.sleep_until"}
    tree = ast.parse(source)
    for line, imported in imported_names(tree):
        if imported in {"time.sleep", "trio.sleep", "trio.sleep_until"}:
            yield f"{name}:{line} imports {imported}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in refused:
            yield f"{name}:{node.lineno} uses {ast.unparse(node)}"


def test_no_test_sleeps() -> None:
    """A test waits for what it expects; only under a clock that jumps may it name a duration."""
    problems = [
        problem
        for path in python_files(*TEST_FOLDERS)
        for problem in sleeps(shown(path), path.read_text(encoding="utf-8"))
    ]
    assert not problems, listed(problems)


def test_sleeping_is_found_unless_the_clock_jumps() -> None:
    jumping = "async def test_late(autojump_clock): await trio.sleep(60)"
    assert not list(sleeps("tests/test_late.py", jumping))
    assert list(sleeps("multiproc_tests/test_late.py", jumping))
    assert list(sleeps("tests/test_late.py", "async def test_late(): await trio.sleep(60)"))
    assert list(sleeps("tests/test_late.py", "def test_late(autojump_clock): time.sleep(1)"))


def test_test_folders_are_not_packages() -> None:
    packages = [shown(path) for path in python_files(*TEST_FOLDERS) if path.name == "__init__.py"]
    assert not packages, listed(packages)


def test_file_names_say_what_is_inside() -> None:
    problems = [
        shown(path)
        for path in TREES
        for part in path.relative_to(ROOT).with_suffix("").parts
        if VAGUE_NAMES & set(part.lower().split("_"))
    ]
    assert not problems, listed(problems)


def test_nothing_is_left_to_be_done_later() -> None:
    marks = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
    sources = [
        *TREES,
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("store/**/*.sql"),
    ]
    problems = [
        f"{shown(path)}:{number}"
        for path in [*sources, ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci" / "run"]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert not problems, listed(problems)


def test_every_package_is_typed() -> None:
    missing = [package for package in PACKAGES if not (ROOT / package / "py.typed").is_file()]
    assert not missing, listed(missing)
