"""What all tests with real processes share: a home that must end empty."""

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from multiproc_tests.harness.home import Home

PASSED: Final = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know how the test itself went."""
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    """Return a temporary home; after a test that passed, nothing of it may be left.

    pytest's own folders are too deep for the path of a socket.
    """
    with tempfile.TemporaryDirectory(prefix="pw-") as folder:
        home = Home(Path(folder))
        passed = False
        try:
            yield home
            passed = request.node.stash.get(PASSED, False)
            if passed:
                home.assert_stopped()
            else:
                print(home.told())  # noqa: T201 - pytest shows it with the failure
        finally:
            left = home.close()
        assert not passed or left == {}
