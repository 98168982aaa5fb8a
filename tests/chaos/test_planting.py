"""Faults are planted from outside, fit the code or are refused, and leave nothing behind."""

import importlib
import sys
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from runtime.chaos.planting import Change, PlantingRefused, Replaced, Reworded, Rewritten, planted

ACCOUNT = '''
from contextlib import contextmanager
from functools import partial

QUERY = "take it WHERE id = :id AND generation = :generation"
SETTINGS = ("synchronous = FULL", "cache = 1")
LIMIT = 30


class Ledger:
    """A class whose methods can be changed."""

    def __init__(self):
        self.__rows = [1, 2, 3]

    def count(self):
        return len(self.__rows)

    @property
    def is_empty(self):
        return not self.__rows

    @staticmethod
    def unit():
        return "cent"

    def __repr__(self):
        return f"ledger of {super().__repr__()[:0]}{self.count()}"


def is_live(expires_at, now):
    """Say whether it lives."""
    return expires_at > now


async def later(value):
    return value + 1


@contextmanager
def nested(log):
    log.append("opened")
    try:
        yield
    finally:
        log.append("closed")


def make(step):
    def inner(value):
        return value + step

    return inner


add_two = make(2)
check = partial(is_live, 10)
'''

USER = """
from planted_account import LIMIT, QUERY, is_live

TABLE = {"live": is_live}


def asked():
    return QUERY, LIMIT, is_live(10, 10), TABLE["live"](10, 10)
"""


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module, and another one that imports from it."""
    (tmp_path / "planted_account.py").write_text(ACCOUNT, encoding="utf-8")
    (tmp_path / "planted_user.py").write_text(USER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("planted_account")
    for name in ("planted_account", "planted_user"):
        sys.modules.pop(name, None)


@pytest.fixture
def user(account: types.ModuleType) -> types.ModuleType:
    assert account.__name__ == "planted_account"
    return importlib.import_module("planted_user")


def test_rewritten_function_is_changed_for_everybody_who_has_it(
    account: types.ModuleType, user: types.ModuleType
) -> None:
    bound = partial(account.is_live, 10)
    fault = Rewritten("planted_account:is_live", "expires_at > now", "expires_at >= now")
    with planted([fault]):
        assert bound(10)
        assert account.check(10)
        assert user.asked()[2:] == (True, True)
    assert not bound(10)
    assert user.asked()[2:] == (False, False)


def test_method_with_private_names_and_super_can_be_rewritten(account: types.ModuleType) -> None:
    ledger = account.Ledger()
    faults = [
        Rewritten("planted_account:Ledger.count", "len(self.__rows)", "sum(self.__rows)"),
        Rewritten("planted_account:Ledger.__repr__", "ledger of", "book of"),
        Rewritten("planted_account:Ledger.is_empty", "not self.__rows", "True"),
        Rewritten("planted_account:Ledger.unit", '"cent"', '"euro"'),
    ]
    with planted(faults):
        assert repr(ledger) == "book of 6"
        assert ledger.is_empty
        assert ledger.unit() == "euro"
    assert repr(ledger) == "ledger of 3"
    assert not ledger.is_empty
    assert ledger.unit() == "cent"


async def test_async_function_and_context_manager_can_be_rewritten(
    account: types.ModuleType,
) -> None:
    faults = [
        Rewritten("planted_account:later", "value + 1", "value + 2"),
        Rewritten("planted_account:nested", 'log.append("closed")', 'log.append("left open")'),
    ]
    log: list[str] = []
    with planted(faults):
        assert await account.later(1) == 3
        with account.nested(log):
            pass
    assert log == ["opened", "left open"]
    assert await account.later(1) == 2


def test_line_and_file_of_a_rewritten_function_stay_where_it_is_written(
    account: types.ModuleType,
) -> None:
    def place() -> tuple[str, int, str]:
        code = account.Ledger.count.__code__
        return code.co_filename, code.co_firstlineno, code.co_qualname

    before = place()
    with planted([Rewritten("planted_account:Ledger.count", "len(", "sum(")]):
        assert place() == before


def test_text_is_changed_where_it_was_imported_too(
    account: types.ModuleType, user: types.ModuleType
) -> None:
    fault = Reworded("planted_account:QUERY", " AND generation = :generation", "")
    with planted([fault]):
        assert account.QUERY == user.asked()[0] == "take it WHERE id = :id"
    assert account.QUERY is user.QUERY
    assert account.QUERY.endswith("AND generation = :generation")


def test_text_in_a_tuple_is_changed(account: types.ModuleType) -> None:
    with planted([Reworded("planted_account:SETTINGS", "FULL", "NORMAL")]):
        assert account.SETTINGS == ("synchronous = NORMAL", "cache = 1")
    assert account.SETTINGS == ("synchronous = FULL", "cache = 1")


def test_replacement_reaches_importers_and_classes(
    account: types.ModuleType, user: types.ModuleType
) -> None:
    faults: list[Change] = [
        Replaced("planted_account:LIMIT", lambda limit: limit + 1),
        Replaced("planted_account:Ledger.count", lambda count: lambda self: -count(self)),
    ]
    with planted(faults):
        assert user.asked()[1] == account.LIMIT == 31
        assert account.Ledger().count() == -3
    assert user.asked()[1] == account.LIMIT == 30
    assert account.Ledger().count() == 3


def test_module_imported_meanwhile_is_restored_too(account: types.ModuleType) -> None:
    with planted([Replaced("planted_account:LIMIT", lambda limit: limit + 1)]):
        user = importlib.import_module("planted_user")
        assert user.LIMIT == 31
    assert user.LIMIT == account.LIMIT == 30


def test_equal_value_of_another_module_is_left_alone(
    account: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python has one 30: it is the same object as any other."""
    stranger = types.ModuleType("stranger")
    stranger.LIMIT, stranger.MOST = 30, 60  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "stranger", stranger)
    with planted([Replaced("planted_account:LIMIT", lambda limit: limit * 2)]):
        assert account.LIMIT == 60
        assert vars(stranger)["LIMIT"] == 30
    assert vars(stranger)["MOST"] == 60


def test_two_passages_of_one_function_can_be_rewritten(account: types.ModuleType) -> None:
    faults = [
        Rewritten("planted_account:is_live", "expires_at > now", "expires_at > now + 5"),
        Rewritten("planted_account:is_live", "now + 5", "now + 7"),
    ]
    with planted(faults):
        assert account.is_live(18, 10)
        assert not account.is_live(17, 10)
    assert account.is_live(11, 10)


def test_everything_is_restored_after_an_error(account: types.ModuleType) -> None:
    def fail() -> None:
        with planted([Rewritten("planted_account:is_live", ">", "<")]):
            assert not account.is_live(2, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert account.is_live(2, 1)


def test_faults_on_one_place_are_taken_back_in_reverse(account: types.ModuleType) -> None:
    faults = [
        Replaced("planted_account:LIMIT", lambda limit: limit * 2),
        Replaced("planted_account:LIMIT", lambda limit: limit + 1),
    ]
    with planted(faults):
        assert account.LIMIT == 61
    assert account.LIMIT == 30


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (Rewritten("planted_account:gone", "a", "b"), "planted_account:gone is not there"),
        (Rewritten("planted_account:Gone.count", "a", "b"), "Gone.count is not there"),
        (Rewritten("planted_gone:count", "a", "b"), "planted_gone:count is not there"),
        (Rewritten("planted_account", "a", "b"), "names no attribute"),
        (Rewritten("planted_account:Ledger.count", "rows[0]", "1"), "0 times and not once"),
        (Rewritten("planted_account:is_live", "now", "then"), "2 times and not once"),
        (
            Rewritten("planted_account:is_live", "expires_at > now", "(expires_at > now)"),
            "does the same",
        ),
        (Rewritten("planted_account:is_live", "expires_at > now", "> >"), "cannot be compiled"),
        (Rewritten("planted_account:LIMIT", "3", "4"), "no function"),
        (Rewritten("builtins:len", "a", "b"), "no function"),
        (Rewritten("planted_account:add_two", "+ step", "+ 1"), "variables of its surroundings"),
        (Rewritten("planted_account:LIMIT.real", "a", "b"), "attribute of no module and no class"),
        (Reworded("planted_account:QUERY", "revision", "1"), "0 times and not once"),
        (Reworded("planted_account:QUERY", ":", "?"), "2 times and not once"),
        (Reworded("planted_account:SETTINGS", " = ", "="), "2 times and not once"),
        (Reworded("planted_account:LIMIT", "3", "4"), "is no text"),
        (Replaced("planted_account:LIMIT", lambda limit: limit), "would stay as it is"),
    ],
)
def test_fault_that_does_not_fit_the_code_is_refused_and_nothing_is_changed(
    account: types.ModuleType, fault: Change, complaint: str
) -> None:
    good = Rewritten("planted_account:later", "value + 1", "value")
    before = account.later.__code__
    with pytest.raises(PlantingRefused, match=complaint), planted([good, fault]):
        raise AssertionError("nothing is planted")
    assert account.later.__code__ is before
