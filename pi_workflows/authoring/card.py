"""What a person sees of a human decision: a title, machine data, and a bounded presentation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from pi_workflows.authoring.errors import CardRefused
from pi_workflows.authoring.json_form import Mismatch, plain_json
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.labels import is_label
from pi_workflows.protocol.version import DECISION_PRESENTATION

CHARS_MAX: Final = 64_000
BLOCKS_MAX: Final = 256
ITEMS_MAX: Final = 256
STRING_CHARS_MAX: Final = 16_000
_LAYOUT: Final = str.maketrans("\n\t", "  ")
"""Takes out the control characters that a text of several lines has."""


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a presentation; `paragraph`, `section`, `bullets`, … make it.

    Attributes:
        kind: `paragraph`, `section`, `bullets`, `fields` or `preformatted`.
        text: None for a list.
        items: of a list: texts of bullets, or (label, value) of fields; else empty.
    """

    kind: str
    text: str | None = None
    items: tuple[str, ...] | tuple[tuple[str, str], ...] = ()

    def stored(self) -> JsonObject:
        """Return the stored form."""
        if self.kind == "bullets":
            return {"type": self.kind, "items": [*cast("tuple[str, ...]", self.items)]}
        if self.kind == "fields":
            pairs = cast("tuple[tuple[str, str], ...]", self.items)
            items: list[JsonValue] = [{"label": name, "value": value} for name, value in pairs]
            return {"type": self.kind, "items": items}
        return {"type": self.kind, "text": self.text}


def paragraph(text: str) -> Block:
    """Show running text."""
    return Block("paragraph", text)


def section(title: str) -> Block:
    """Begin a part of the presentation with a heading."""
    return Block("section", title)


def bullets(items: Sequence[str]) -> Block:
    """Show a list of at most 256 texts."""
    return Block("bullets", items=tuple(items))


def fields(values: Mapping[str, str]) -> Block:
    """Show at most 256 labels with their values."""
    return Block("fields", items=tuple(values.items()))


def preformatted(text: str) -> Block:
    """Show text as it is, such as a diff."""
    return Block("preformatted", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A question for a person.

    Attributes:
        title: one line.
        subject: JSON: what is decided about, for machines.
        summary: shown before the blocks; None shows nothing.
        blocks: the rest of the presentation.
        revision: of the question, at least 1.
        expires_at: the instant, with a time zone, after which no answer counts; None waits. A
            node with `on_timeout` has its own deadline.

    Raises:
        CardRefused: a text has control characters or is too long, there are too many blocks,
            items or characters, or another value breaks its rule.
    """

    title: str
    subject: Any = None
    summary: str | None = None
    blocks: Sequence[Block] = ()
    revision: int = 1
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        _check_text("title", self.title, lines=False)
        if type(self.revision) is not int or self.revision < 1:
            raise CardRefused("revision is a whole number of at least 1")
        expires: object = self.expires_at
        if expires is not None and (not isinstance(expires, datetime) or expires.tzinfo is None):
            raise CardRefused("expires_at is a datetime with a time zone")
        try:
            plain_json(self.subject)
        except Mismatch as found:
            raise CardRefused(f"subject at {found.path}: {found.got} is no JSON") from None
        self._check_blocks()

    def presentation(self) -> JsonObject:
        """Return `pi-workflows.decision-presentation.v1`."""
        blocks: list[JsonValue] = [block.stored() for block in self._all_blocks()]
        return {"schema": DECISION_PRESENTATION, "blocks": blocks}

    def _all_blocks(self) -> list[Block]:
        shown = [] if self.summary is None else [paragraph(self.summary)]
        return [*shown, *self.blocks]

    def _check_blocks(self) -> None:
        blocks = self._all_blocks()
        if len(blocks) > BLOCKS_MAX:
            raise CardRefused(f"it has {len(blocks)} blocks; at most {BLOCKS_MAX} are allowed")
        total = 0
        for place, block in enumerate(blocks, start=1):
            if not isinstance(block, Block):
                raise CardRefused(f"block {place}: it is made by paragraph(...), bullets(...), …")
            if len(block.items) > ITEMS_MAX:
                raise CardRefused(f"block {place}: at most {ITEMS_MAX} items are allowed")
            for text in _texts(block):
                lines = block.kind != "section"
                total += _check_text(f"block {place}: a text", text, lines=lines)
        if total > CHARS_MAX:
            raise CardRefused(f"it has {total} characters; at most {CHARS_MAX} are allowed")


def _texts(block: Block) -> Iterator[object]:
    if block.kind not in {"bullets", "fields"}:
        yield block.text
    for item in block.items:
        yield from item if isinstance(item, tuple) else (item,)


def _check_text(name: str, text: object, *, lines: bool) -> int:
    """Check a text that a person sees; return its length in UTF-16 units.

    Args:
        lines: whether it may have several lines.
    """
    if not isinstance(text, str) or not text.strip():
        raise CardRefused(f"{name} is text that is not blank")
    visible = text.translate(_LAYOUT) if lines else text
    if not is_label(visible):
        raise CardRefused(f"{name} has a control character")
    length = len(text.encode("utf-16-le")) // 2
    if length > STRING_CHARS_MAX:
        raise CardRefused(
            f"{name} has {length} characters; at most {STRING_CHARS_MAX} are allowed"
        )
    return length
