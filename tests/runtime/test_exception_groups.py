"""Behaviour of reading nested exception groups."""

import trio

from runtime.exception_groups import sole_error


def test_a_plain_error_is_itself() -> None:
    error = ValueError()
    assert sole_error(error) is error


def test_nested_groups_of_one_are_unwrapped() -> None:
    error = ValueError()
    assert sole_error(ExceptionGroup("a", [ExceptionGroup("b", [error])])) is error


def test_several_errors_stay_a_group() -> None:
    errors = (ValueError(), KeyError())
    found = sole_error(ExceptionGroup("a", [ExceptionGroup("b", errors)]))
    assert isinstance(found, ExceptionGroup)
    assert found.exceptions == errors


async def test_cancellations_beside_an_error_are_left_out_and_alone_yield_one() -> None:
    caught: list[BaseException] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            caught.append(cancelled)
            raise
    error = ValueError()
    group = BaseExceptionGroup("a", [*caught, ExceptionGroup("b", [error])])
    assert sole_error(group) is error
    assert sole_error(BaseExceptionGroup("c", [BaseExceptionGroup("d", caught)])) is caught[0]
