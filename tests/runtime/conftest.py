"""A simulated machine inside the test's own loop."""

from collections.abc import AsyncIterator

import pytest
import trio

from runtime.simulation.machine import Machine


@pytest.fixture
async def machine(nursery: trio.Nursery) -> AsyncIterator[Machine]:
    """A machine of seed 1; at the end it is shut down and no process has failed.

    The test asks for `autojump_clock` too, for only a test's own counts.
    """
    made = Machine(1, nursery)
    yield made
    with trio.CancelScope(shield=True):
        await made.shut_down()
    assert not made.failures
