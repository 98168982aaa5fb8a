"""How exceptions of author code are told."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from pydantic import TypeAdapter, ValidationError
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


@pytest.mark.parametrize(
    "wrong", [lambda: asyncio.sleep(1), lambda: asyncio.to_thread(print)], ids=["sleep", "thread"]
)
def test_asyncio_in_an_async_node_is_told_with_what_to_use_instead(
    wrong: Callable[[], Awaitable[None]],
) -> None:
    async def node() -> None:
        await wrong()

    with pytest.raises(RuntimeError) as raised:
        trio.run(node)
    told = describe(raised.value, HERE)
    assert told.startswith(
        "RuntimeError: no running event loop (async nodes run under trio, not asyncio: "
        "use trio.sleep, trio.run_process, …) (test_author_errors.py:"
    )
    assert describe(RuntimeError("no running engine"), HERE) == "RuntimeError: no running engine"


def test_what_a_model_refuses_is_told_without_the_value() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(list[int]).validate_python([1, "s3cret"])
    told = describe(raised.value, HERE)
    assert told.startswith("ValidationError: list[int]: 1: Input should be a valid integer")
    assert "s3cret" not in told
    assert "(test_author_errors.py:" in told
