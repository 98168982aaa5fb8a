"""How many simulated runs of the whole system a second of real time holds."""

import time
from dataclasses import dataclass
from itertools import islice
from typing import Final

from bench.figures import Section
from pi_workflows.chaos.sim_scenarios import hold, whole_system

_S_PER_HOUR: Final = 3_600


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """How much is simulated.

    Attributes:
        seeds: of each scenario.
        scenarios_max: so many of them, in their order; None takes all.
    """

    seeds: int
    scenarios_max: int | None = None


def measure_simulation(plan: SimulationPlan) -> Section:
    """Run every core scenario with so many seeds; a broken promise leaves as itself."""
    section = Section("Simulation", "one process; every scenario starts from an empty folder")
    rates = []
    virtual_s = real_s = 0.0
    for name in islice(whole_system(), plan.scenarios_max):
        began = time.perf_counter()
        for seed in range(plan.seeds):
            virtual_s += hold(name, seed).virtual_s
        took = time.perf_counter() - began
        real_s += took
        rates.append(plan.seeds / took)
    section.add("simulation_scenarios", "seeds/s", rates)
    section.add("simulation_virtual_vs_real", "", [virtual_s / real_s])
    section.add("simulation_virtual", "h", [virtual_s / _S_PER_HOUR])
    return section
