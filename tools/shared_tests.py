"""A pytest plugin: several processes share one suite, and each test runs in exactly one of them.

Every process collects the whole suite and goes through it in order, or from its end with
`--shared-backwards`. Before each unit, a file or with `--shared-unit=test` a test, it tries to
create a file of the unit's name in the folder that they share; whoever creates it runs it. So the
quicker takes more, nobody has to know how long anything takes, and a test that only one process
has collected is run by that one.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, cast

import pytest

Unit = Literal["file", "test"]

FOLDER: Final = "--shared-in"
UNIT: Final = "--shared-unit"
BACKWARDS: Final = "--shared-backwards"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("shared tests")
    group.addoption(FOLDER, type=Path, metavar="FOLDER", help="where units are claimed")
    group.addoption(UNIT, choices=("file", "test"), default="file", help="what is claimed")
    group.addoption(BACKWARDS, action="store_true", help="begin with the last unit")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run what this process can claim; without a folder leave it all to pytest.

    Fixtures that are shared by several units are made for each of them anew: which unit comes next
    is not known before this one is over, and claiming it earlier would keep it from the idle.
    """
    options = session.config.option
    folder = cast("Path | None", options.shared_in)
    if folder is None or options.collectonly:
        return None
    if session.testsfailed and not options.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} error(s) during collection")
    units = units_of(session.items, options.shared_unit)
    for name in reversed(units) if options.shared_backwards else units:
        if _claim(folder, name):
            _run(session, units[name])
    return True


def units_of(items: list[pytest.Item], unit: Unit) -> dict[str, list[pytest.Item]]:
    """Return the tests of each unit, in order, by its name."""
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = item.nodeid if unit == "test" else item.nodeid.partition("::")[0]
        units.setdefault(name, []).append(item)
    return units


def _run(session: pytest.Session, items: list[pytest.Item]) -> None:
    for item, following in pairwise([*items, None]):
        assert item is not None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def _claim(folder: Path, name: str) -> bool:
    try:
        (folder / hashlib.sha256(name.encode()).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
