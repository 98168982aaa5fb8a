"""Garbage of explorations: collected between two of them, never within one.

A whole installation is a knot of references with the bytes of its disk in it. Python counts
objects and not bytes, so a hundred megabytes of old disks would wait for a full collection, and
each of these would go through all that was ever imported. Collected after each one, what there is
to go through is that one alone.
"""

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def collected_between() -> Generator[Callable[[], object]]:
    """Switch the collector off, and offer a function that collects.

    What there is at the beginning is not looked at meanwhile. Afterwards all is as it was.
    """
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield gc.collect
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
