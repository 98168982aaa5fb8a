"""What a place costs at which a harness could stop the process, when there is no harness."""

import time
from contextlib import closing
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from bench.figures import Section
from runtime.sync_points import SyncPoint
from runtime.world import World, production_world

_NS_PER_S: Final = 1_000_000_000
_POINT: Final = SyncPoint.COMMAND_BEFORE_BEGIN


@dataclass(frozen=True, slots=True)
class HookPlan:
    """How much is measured.

    Attributes:
        rounds: samples.
        calls: calls of each sample.
    """

    rounds: int
    calls: int


def measure_hooks(plan: HookPlan) -> Section:
    """Reach a point of the production world over and over, as the product does it."""
    section = Section("Hooks", "for each time that a sync point is reached, the loop included")
    with closing(production_world()) as world:
        samples = [_reach(world, plan.calls) for _ in range(plan.rounds)]
    section.add("hook_inert", "ns", samples)
    return section


def _reach(world: World, calls: int) -> float:
    """Return the mean of so many calls, in nanoseconds of this thread's processor time."""
    began = time.thread_time()
    for _ in repeat(None, calls):
        world.sync_points.reached(_POINT)
    return (time.thread_time() - began) * _NS_PER_S / calls
