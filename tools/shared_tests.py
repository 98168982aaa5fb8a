"""A pytest plugin: several processes share one suite, and each test runs in exactly one of them.

Every process collects the whole suite and goes through it in order. Before each unit, a file or
with `--shared-unit=test` a test, it tries to create a file of the unit's name in the folder that
they share; whoever creates it runs it. So the quicker takes more, nobody has to know how long
anything takes, and a test that only one process has collected is run by that one.
"""

from __future__ import annotations

import hashlib
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

Unit = Literal["file", "test"]

FOLDER: Final = "--shared-in"
UNIT: Final = "--shared-unit"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("shared tests")
    group.addoption(FOLDER, type=Path, metavar="FOLDER", help="where units are claimed")
    group.addoption(UNIT, choices=("file", "test"), default="file", help="what is claimed")


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
    for unit in claimed(session.items, folder, options.shared_unit):
        for item, following in pairwise([*unit, None]):
            assert item is not None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    return True


def claimed(items: list[pytest.Item], folder: Path, unit: Unit) -> Iterator[Iterator[pytest.Item]]:
    """Yield one unit after the other, of those that nobody else has claimed."""

    def name(item: pytest.Item) -> str:
        return item.nodeid if unit == "test" else item.nodeid.partition("::")[0]

    for unit_name, tests in groupby(items, key=name):
        if _claim(folder, unit_name):
            yield tests


def _claim(folder: Path, unit_name: str) -> bool:
    try:
        (folder / hashlib.sha256(unit_name.encode()).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
