"""Reading trio's strict exception groups for the one error they really carry."""

import trio


def sole_error(error: BaseException) -> BaseException:
    """Return the one error inside nested groups, whatever was cancelled because of it.

    A group of nothing but `trio.Cancelled` yields one of them, so that re-raising the result
    still propagates the cancellation. A group of several real errors is returned without its
    cancellations, as a group.
    """
    while isinstance(error, BaseExceptionGroup):
        _, real = error.split(trio.Cancelled)
        if real is None:
            return _first_leaf(error)
        if len(real.exceptions) > 1:
            return real
        error = real.exceptions[0]
    return error


def _first_leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
