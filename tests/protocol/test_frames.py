"""Frames: one canonical object per line, however the bytes arrive, up to exactly one mebibyte."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_workflows.protocol.frames import (
    FRAME_BYTES_MAX,
    FrameDecoder,
    FrameError,
    FrameTooLarge,
    encode_frame,
    parse_canonical,
)

OVERHEAD: Final = len(b'{"a":""}\n')


def test_frame_is_canonical_and_ends_in_a_newline() -> None:
    assert encode_frame({"b": 1.0, "a": "\n"}) == b'{"a":"\\n","b":1}\n'
    assert parse_canonical(b'{"a":"\\n","b":1}') == {"a": "\n", "b": 1}


def test_exactly_one_mebibyte_passes_and_one_byte_more_does_not() -> None:
    """The newline counts; writing and reading have the same limit.

    Case: C15.
    """
    largest = encode_frame({"a": "x" * (FRAME_BYTES_MAX - OVERHEAD)})
    assert len(largest) == FRAME_BYTES_MAX
    assert FrameDecoder().feed(largest) == [largest[:-1]]
    with pytest.raises(FrameTooLarge):
        encode_frame({"a": "x" * (FRAME_BYTES_MAX - OVERHEAD + 1)})
    with pytest.raises(FrameTooLarge):
        FrameDecoder().feed(b"x" + largest)


def test_frame_that_grows_too_large_is_refused_before_it_ends() -> None:
    """A peer cannot make the receiver hold more than one frame.

    Case: C15.
    """
    decoder = FrameDecoder()
    for _ in range(15):
        assert decoder.feed(b"x" * 65_536) == []
    decoder.feed(b"x" * 65_535)
    assert decoder.pending == FRAME_BYTES_MAX - 1
    with pytest.raises(FrameTooLarge):
        decoder.feed(b"x")


@given(st.data())
def test_lines_are_found_however_the_stream_is_cut(data: st.DataObject) -> None:
    """Every frame comes out once, whole and in order."""
    numbers = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9))
    frames = [encode_frame(dict(found)) for found in data.draw(st.lists(numbers, max_size=8))]
    stream = b"".join(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder = FrameDecoder()
    lines: list[bytes] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        lines += decoder.feed(stream[begin:end])
    assert lines == [frame[:-1] for frame in frames]
    assert decoder.pending == 0


@pytest.mark.parametrize(
    "line",
    [
        b'{"b":1,"a":2}',
        b'{ "a":1}',
        b'{"a":1.0}',
        b'{"a":"\\u0041"}',
        b'{"a":1}\r',
        b'{"a":1,"a":1}',
        b"[1]",
        b"1",
        b"",
        b"\xff",
    ],
)
def test_bytes_that_are_not_one_canonical_object_are_no_frame(line: bytes) -> None:
    """Case: C14."""
    with pytest.raises(FrameError):
        parse_canonical(line)


def test_frame_that_comes_byte_by_byte_is_the_same_frame() -> None:
    decoder = FrameDecoder()
    frames = encode_frame({"a": "x" * 100}) + encode_frame({"b": 1})
    lines = [line for byte in frames for line in decoder.feed(bytes([byte]))]
    assert lines == frames.split(b"\n")[:-1]
    assert decoder.pending == 0


def test_frame_that_comes_in_parts_is_refused_as_soon_as_it_is_too_large() -> None:
    """Nothing is held beyond the limit, however small the parts."""
    decoder = FrameDecoder()
    part = b"x" * 4_096
    for _ in range(FRAME_BYTES_MAX // len(part) - 1):
        assert decoder.feed(part) == []
    with pytest.raises(FrameTooLarge):
        decoder.feed(part)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a":' + b"9" * 5_000 + b"}", "too many digits"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":1,"a":1}', "twice"),
        (b'{"a":' * 100_000, "nesting"),
        (b'{"a":[' + b"1 ," * 5_000 + b"1]}", "one object of canonical JSON"),
        (b"[" + b"1," * 5_000 + b"1]", "one object of canonical JSON"),
    ],
)
def test_reason_of_a_refusal_names_the_kind_of_problem(line: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        parse_canonical(line)


def test_long_line_with_large_numbers_is_read_by_the_strict_parser() -> None:
    """Only there a double beyond 2^53 is told from an integer that has no canonical form."""
    line = b'{"a":[' + b"1," * 5_000 + b"100000000000000000000]}"
    members = parse_canonical(line)["a"]
    assert isinstance(members, list)
    assert members[-1] == 1e20
    assert isinstance(members[-1], float)
