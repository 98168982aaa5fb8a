"""Callbacks of authors that are asked outside of any node, and get so long for their answer."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(timeout_s: float, ask: Callable[[], T]) -> tuple[list[T], BaseException | None]:
    """Run foreign code on a thread of its own for so long, and return its value or its error.

    Neither comes of code that takes longer; it may go on running.
    """
    given: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            given.append(ask())
        except BaseException as error:  # noqa: BLE001 - foreign code, on a thread of its own
            failed.append(error)

    thread = threading.Thread(target=run, name="callback", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return given, failed[0] if failed else None
