"""Steps a coroutine with the guard up: only its own code, not what runs while it waits."""

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from runtime.chaos.guard import Guard

ResultT = TypeVar("ResultT")


@types.coroutine
def guarded(guard: Guard, coroutine: Coroutine[Any, Any, ResultT]) -> Generator[Any, Any, ResultT]:
    """Await a coroutine; the guard is up whenever it runs.

    Raises:
        ScenarioRefused: it has reached for the outside, whether it has caught that or not.
    """
    sent: Any = None
    thrown: BaseException | None = None
    while True:
        try:
            with guard:
                asked = coroutine.send(sent) if thrown is None else coroutine.throw(thrown)
        except StopIteration as end:
            if guard.refusal is not None:
                raise guard.refusal from None
            value: ResultT = end.value
            return value
        if guard.refusal is not None:
            coroutine.close()
            raise guard.refusal
        sent = thrown = None
        try:
            sent = yield asked
        except BaseException as error:  # noqa: BLE001 - the coroutine's own to handle
            thrown = error
