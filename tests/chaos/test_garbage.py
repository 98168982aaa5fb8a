"""Garbage is collected between explorations and never within one."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from pi_workflows.chaos.garbage import collected_between


class Knot:
    """Refers to itself, as a simulated installation does."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _collector_left_as_it_was() -> Iterator[None]:
    was_on = gc.isenabled()
    yield
    assert gc.isenabled() is was_on
    assert gc.get_freeze_count() == 0


def test_garbage_waits_for_the_end_of_an_exploration() -> None:
    with collected_between() as collect:
        knot = weakref.ref(Knot())
        for _ in range(5_000):
            Knot()
        assert knot() is not None
        collect()
        assert knot() is None


def test_what_was_there_before_is_not_gone_through() -> None:
    old = Knot()
    with collected_between() as collect:
        assert not any(it is old for it in gc.get_objects())
        collect()
    assert any(it is old for it in gc.get_objects())


def test_an_exploration_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(KeyboardInterrupt), collected_between():
        raise KeyboardInterrupt


def test_who_has_switched_the_collector_off_keeps_it_off() -> None:
    was_on = gc.isenabled()
    gc.disable()
    try:
        with collected_between():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        if was_on:
            gc.enable()
