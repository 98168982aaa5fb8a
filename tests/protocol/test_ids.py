"""Identifiers: legal forms, derived ones, and what they are derived from."""

import hashlib
import uuid

import pytest

from pi_workflows.protocol.ids import (
    IdError,
    check_run_id,
    derived_id,
    effect_id,
    is_peer_id,
    resource_id,
    run_id_for,
    run_resource_id,
    time_ordered,
)
from pi_workflows.protocol.timestamps import compact, rfc3339


@pytest.mark.parametrize("text", ["a", "0", "A.b_c-9", "x" * 200])
def test_legal_run_id_is_taken_as_it_is(text: str) -> None:
    assert check_run_id(text) == text


@pytest.mark.parametrize("text", ["", ".a", "-a", "_a", "a b", "a/b", "é", "a\n", "x" * 201])
def test_illegal_run_id_is_refused(text: str) -> None:
    with pytest.raises(IdError):
        check_run_id(text)


def test_peer_id_is_measured_in_bytes() -> None:
    assert is_peer_id("x" * 256)
    assert is_peer_id("é" * 128)
    for text in ("", "x" * 257, "é" * 129, "\ud800"):
        assert not is_peer_id(text)


def test_derived_id_is_forty_digits_of_the_joined_parts() -> None:
    """The parts cannot run into each other."""
    digits = hashlib.sha256(b"run\0run-1").hexdigest()[:40]
    assert run_resource_id("run-1") == resource_id("run", "run-1") == f"resource-{digits}"
    assert derived_id("x", "ab", "c") != derived_id("x", "a", "bc")
    assert effect_id("source", "type", "key").startswith("effect-")


def test_run_id_tells_when_and_what() -> None:
    run_id = run_id_for(compact(1_700_000_000_123), "päth/name" + "x" * 100, "0123abcd")
    assert run_id == f"20231114T221320123Z-p-th-name{'x' * 71}-0123abcd"


def test_instants_are_shown_in_utc_with_milliseconds() -> None:
    assert rfc3339(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"


def test_time_ordered_id_is_a_uuid_that_sorts_by_its_instant() -> None:
    random = [str(uuid.uuid4()) for _ in range(100)]
    ids = [time_ordered(text, 1_764_417_600_000 + at) for at, text in enumerate(random)]
    assert ids == sorted(ids)
    for at, (made, text) in enumerate(zip(ids, random, strict=True)):
        parsed = uuid.UUID(made)
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
        assert parsed.int >> 80 == 1_764_417_600_000 + at
        assert made[15:] == text[15:]
