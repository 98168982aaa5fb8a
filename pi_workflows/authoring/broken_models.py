"""What pydantic refuses, told without the value that it refused."""

import traceback
from types import TracebackType

from pydantic import ValidationError
from pydantic_core import ErrorDetails


def rule_text(found: ErrorDetails) -> str:
    """Return the rule that a value breaks; some of pydantic's own texts repeat the value."""
    if found["type"] == "union_tag_invalid":
        context = found["ctx"]
        return f"{context['discriminator']} should be one of {context['expected_tags']}"
    return found["msg"]


def told_without_values(error: ValidationError) -> str:
    """Return all that a model refuses in one line: its name, then place and rule of each."""
    rules = [
        ": ".join([*filter(None, [".".join(map(str, found["loc"]))]), rule_text(found)])
        for found in error.errors(include_url=False, include_input=False)
    ]
    return f"{error.title}: {'; '.join(rules)}"


def traceback_text(
    error: BaseException, begin: TracebackType | None, limit: int | None = None
) -> str:
    """Return a traceback for people who ask for one, without values that a model refused.

    Args:
        begin: the frames to show; what led to the error keeps its own.
        limit: how many of them at most; None is all.
    """
    text = "".join(traceback.format_exception(type(error), error, begin, limit))
    known: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in known:
        known.add(id(link))
        if isinstance(link, ValidationError):
            text = text.replace(str(link), told_without_values(link))
        link = link.__cause__ or link.__context__
    return text
