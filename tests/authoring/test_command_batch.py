"""Command batches: which are sound, and how a wrong one is refused before anything starts."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pi_workflows import BatchCommand, BatchItemResult, BatchKind, BatchOutcome, BatchRefused
from pi_workflows.authoring.codec import Codec
from pi_workflows.authoring.command_batch import CommandBatchResult, check_batch

ONE = BatchCommand(id="one", command="true", cwd="/", timeout=1)


def check(commands: Any, kind: Any = "review", concurrency: Any = 4) -> None:  # noqa: ANN401
    check_batch(commands, kind, concurrency)


@pytest.mark.parametrize("count", [0, 1, 64])
def test_up_to_64_commands_are_accepted(count: int) -> None:
    check([replace(ONE, id=f"c{number}") for number in range(count)])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"commands": [replace(ONE, id=str(n)) for n in range(65)]}, "65 commands; at most 64"),
        ({"commands": [], "concurrency": 9}, "concurrency is a whole number from 1 to 8"),
        ({"commands": [], "concurrency": 0}, "concurrency is a whole number from 1 to 8"),
        ({"commands": [], "concurrency": True}, "concurrency is a whole number from 1 to 8"),
        ({"commands": [], "kind": "x"}, 'kind is one of "review", "ciWatch", "verification"'),
        ({"commands": ["true"]}, "command 1: it is a BatchCommand, not a str"),
        ({"commands": "true"}, "a batch is a list of BatchCommand"),
        ({"commands": [ONE, ONE]}, 'command 2: its id "one" is taken by an earlier one'),
    ],
)
def test_a_batch_that_breaks_a_rule_is_refused_whole(arguments: dict[str, Any], says: str) -> None:
    """Case: B31."""
    with pytest.raises(BatchRefused) as caught:
        check(**arguments)
    assert says in str(caught.value)
    assert str(caught.value).startswith("BatchRefused [BATCH_REFUSED] ")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("cwd", "here", "cwd is an absolute path"),
        ("cwd", None, "cwd is an absolute path"),
        ("id", "-a", "its id is 1 to 64"),
        ("id", "a" * 65, "its id is 1 to 64"),
        ("id", "a/b", "its id is 1 to 64"),
        ("command", "", "command is the name of a program"),
        ("args", "x", "args is a list of texts"),
        ("args", [1], "args is a list of texts"),
        ("timeout", 0, "seconds above 0"),
        ("timeout", 3_600.001, "at most one hour"),
        ("timeout", None, "at most one hour"),
        ("timeout", "1", "a timeout is seconds"),
        ("max_output_chars", 0, "max_output_chars is a whole number from 1 to 1,000,000"),
        ("max_output_chars", 1_000_001, "max_output_chars is a whole number from 1 to 1,000,000"),
    ],
)
def test_a_command_that_breaks_a_rule_is_named_by_its_place(
    option: str,
    value: Any,  # noqa: ANN401 - wrong on purpose
    says: str,
) -> None:
    """Case: B31."""
    with pytest.raises(BatchRefused, match=r"command 2: ") as caught:
        check([replace(ONE, id="zero"), replace(ONE, **{option: value})])
    assert says in caught.value.message


@pytest.mark.parametrize("timeout", [0.001, 3_600, timedelta(hours=1)])
def test_a_timeout_goes_from_a_millisecond_to_an_hour(timeout: float | timedelta) -> None:
    check([replace(ONE, timeout=timeout)])


def test_an_unknown_field_of_a_command_is_refused() -> None:
    with pytest.raises(TypeError, match="env"):
        BatchCommand(id="a", command="x", cwd="/", timeout=1, env={})  # type: ignore[call-arg]


def test_a_result_is_stored_with_its_schema_and_reads_back() -> None:
    ended = BatchItemResult(id="a", outcome=BatchOutcome.TIMED_OUT, signal="SIGKILL", error="late")
    result = CommandBatchResult(items=(ended,))
    codec = Codec(CommandBatchResult)
    stored = codec.dump(result, where="output")
    assert stored == {
        "schema": "pi-workflows.command-batch-result.v1",
        "items": [
            {
                "id": "a",
                "outcome": "timedOut",
                "exitCode": None,
                "signal": "SIGKILL",
                "durationMs": 0,
                "stdout": "",
                "stderr": "",
                "stdoutTruncated": False,
                "stderrTruncated": False,
                "error": "late",
            }
        ],
    }
    assert codec.load(stored) == result
    assert not result.succeeded
    assert CommandBatchResult(items=()).succeeded
    assert list(BatchKind) == ["review", "ciWatch", "verification"]
