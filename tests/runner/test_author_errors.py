"""How exceptions of author code are told."""

import json
from pathlib import Path

import pytest
from typing_extensions import override

from pi_workflows.runner.author_errors import describe
from pi_workflows.runner.messages import bounded_text

HERE = Path(__file__).parent


def caught(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as raised:
        raise error
    return raised.value


def test_the_innermost_line_of_the_authors_own_files_is_named() -> None:
    with pytest.raises(ValueError, match="Expecting") as raised:
        json.loads("{")
    assert "(test_author_errors.py:" in describe(raised.value, HERE)
    assert "(decoder.py:" in describe(raised.value, None)


def test_a_group_of_one_is_told_as_its_member() -> None:
    group = BaseExceptionGroup("many", [caught(KeyError("gone"))])
    assert describe(caught(group), HERE).startswith("KeyError: 'gone' (test_author")


def test_an_exception_without_text_or_with_a_broken_one_is_still_told() -> None:
    class Broken(Exception):
        @override
        def __str__(self) -> str:
            raise ValueError

    assert describe(Broken(), HERE) == "Broken: (its text cannot be shown)"
    assert describe(TimeoutError(), HERE) == "TimeoutError"


def test_a_text_is_bounded_in_utf16_units_and_holds_no_surrogates() -> None:
    text = bounded_text("😀" * 100 + "\ud800", 20)
    assert text == "😀" * 6 + " … (cut)"
    assert len(text.encode("utf-16-le")) // 2 == 20
    assert bounded_text("a\ud800") == "a?"
