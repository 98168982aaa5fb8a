"""What one process tells another of a command's result."""

from collections.abc import Callable
from typing import NamedTuple

import orjson
import pytest

from pi_workflows.chaos.procs_results import told, understood
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import OwnerType
from runtime.chaos.outcome import ScenarioRefused
from store.authority import Claim
from store.host import HostRow

ROW = HostRow(3, "server", b"\x00\xff", 7, "linux:1", 1, 2, None)
CLAIM = Claim(ResourceId("run:1"), OwnerType.HOST, "worker-0", 4, "secret")


class Local(NamedTuple):
    """A row of this module's own."""

    names: tuple[str, ...]
    found: frozenset[int]


@pytest.mark.parametrize(
    "result",
    [
        None,
        True,
        12,
        1.5,
        "text",
        b"\x00\xff",
        [1, None],
        (1, ("a", b"b")),
        {"a": [1], 2: "b"},
        {3, 1},
        OwnerType.HOST,
        ROW,
        CLAIM,
        Local(("a",), frozenset({1})),
    ],
)
def test_result_is_understood_as_it_was_told(result: object) -> None:
    received = understood(orjson.loads(orjson.dumps(told(result))))
    assert received == result
    assert type(received) is type(result)


def of_a_class_inside() -> object:
    class Inside(NamedTuple):
        number: int

    return Inside(1)


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (of_a_class_inside, "define that class at the top of its module"),
        (object, "let it return numbers, texts, or a dataclass of them"),
        (lambda: print, "let it return numbers"),
    ],
)
def test_result_that_no_other_process_understands_is_refused(
    make: Callable[[], object], remedy: str
) -> None:
    with pytest.raises(ScenarioRefused, match=remedy):
        told(make())
