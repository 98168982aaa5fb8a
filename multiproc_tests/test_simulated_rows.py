"""A simulated run leaves the rows that a real one leaves: the simulation is of this product."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from multiproc_tests.harness.home import Home
from pi_workflows.chaos.core_workflows import TALLY
from pi_workflows.chaos.playing import play
from pi_workflows.chaos.registry import SCENARIOS
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.choices import Benign

INSTANT_MIN: Final = 10**11
"""A greater number is an instant."""

SAME_EVERYWHERE: Final = re.compile(
    r"""(?x)
      \d{8}T\d{9}Z-tally-[0-9a-f]{8}             # ids of runs
    | [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}  # UUIDs
    | [0-9a-f]{24,}                              # digests and other ids
    | linux-proc-start:\S+?(?=["\s]|$)           # processes
    | "(?:pid|startedAt|finishedAt)":\d+
    """
)


def rows(database: Path, elsewhere: tuple[str, ...]) -> Iterator[str]:
    """Yield each row of each table as text, without what differs from run to run.

    Args:
        elsewhere: paths that stand for each other.
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        for (table,) in tables:
            found = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - from the schema
            names = [column[0] for column in found.description]
            for row in found:
                values = (
                    f"{name}={shown(name, value, elsewhere)}"
                    for name, value in zip(names, row, strict=True)
                )
                text = f"{table}: {' '.join(values)}"
                # Paths are of different lengths, and so is what holds them.
                yield re.sub(r"byte_length=\d+ ", "", text) if "HERE" in text else text


def shown(name: str, value: object, elsewhere: tuple[str, ...]) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return "bytes"
    if name == "pid" and value is not None:
        return "a pid"
    if isinstance(value, int):
        return "instant" if value >= INSTANT_MIN else str(value)
    if isinstance(value, str):
        for path in elsewhere:
            value = value.replace(path, "HERE")
        return SAME_EVERYWHERE.sub("ID", value)
    return str(value)


def test_simulated_run_leaves_the_rows_of_a_real_one(home: Home, tmp_path: Path) -> None:
    """Case: D24."""
    named = home.project / ".pi" / "workflows"
    named.mkdir(parents=True)
    (named / "tally.workflow.py").write_text(TALLY)
    server = home.servers.start()
    home.await_status(home.run_named("tally"), "completed")
    server.stop()
    played = play(SCENARIOS["one_run"], 1, Benign(), folder=tmp_path)
    assert played.error is None
    real = sorted(rows(home.paths.database, (str(home.project),)))
    simulated = sorted(rows(StatePaths(tmp_path).database, ("/simulated/project",)))
    assert [row for row in simulated if row not in real] == []
    assert [row for row in real if row not in simulated] == []
    assert len(simulated) == len(real)
