"""Texts that stand in one line of a list: titles, details, headings."""

import unicodedata
from typing import Final

_NO_LABEL: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that no label has: control characters, halves of pairs, line breaks."""


def is_label(text: str) -> bool:
    """Say whether a text is one line without control characters."""
    return not any(unicodedata.category(character) in _NO_LABEL for character in text)
