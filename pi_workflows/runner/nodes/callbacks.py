"""Runs one function of the author, sync or async, on the main thread."""

import signal
from collections.abc import Awaitable, Callable
from typing import Any

from pi_workflows.authoring.context import Ctx
from pi_workflows.runner.cancellation import Cancellation


class CodeCancelled(Exception):
    """Async author code was cancelled before it returned."""


def invoke(
    function: Callable[[Ctx[Any]], Any],
    context: Ctx[Any],
    *,
    is_async: bool,
    cancellation: Cancellation,
) -> object:
    """Call the function with its context and return what it returns.

    A sync function is only told through `ctx.cancelled`; an async one runs in its own trio loop,
    whose scope is cancelled.

    Raises:
        CodeCancelled: async code ended by its cancellation.
        BaseException: whatever the function raises.
    """
    if not is_async:
        returned: object = function(context)
        return returned
    return _invoke_async(function, context, cancellation)


def _invoke_async(
    function: Callable[[Ctx[Any]], Awaitable[object]],
    context: Ctx[Any],
    cancellation: Cancellation,
) -> object:
    import trio  # noqa: PLC0415 - costs more than all the rest, and most runs never need it

    returned: list[object] = []

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        scope = trio.CancelScope()
        with cancellation.listener(lambda: token.run_sync_soon(scope.cancel)), scope:
            returned.append(await function(context))

    # trio wants the signal wakeup descriptor for itself while it runs.
    borrowed = signal.set_wakeup_fd(-1)
    try:
        trio.run(main)
    finally:
        signal.set_wakeup_fd(borrowed, warn_on_full_buffer=False)
    if not returned:
        raise CodeCancelled
    return returned[0]
