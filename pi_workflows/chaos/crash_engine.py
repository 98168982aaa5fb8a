"""The engine `crash`: a recorded disk, its power cut anywhere, and the real start on what is left.

The actors of a scenario act on one server in a drawn order. Everything that is done to its disk
is recorded, and what each commit has made of the database. From that record follow

- power-cut states: the power goes after any operation, under six models of persistence;
- double faults: the server is killed after any operation, or any flush fails, and the power goes
  after any operation of the next start;
- I/O errors: every single call fails, once and for good, in a life and in the start after it;
  a life of which all of that was done is a workload.

What is left is opened again. It has to be the content of one commit, byte for byte, no older than
what anybody was told, and the real start, `state verify` and the scenario's own invariants have
to be content with it.
"""

import itertools
import time
from collections.abc import Mapping
from typing import Final, final

from pi_workflows.chaos.crash_account import WORKLOADS, Account, Workloads
from pi_workflows.chaos.crash_cuts import explore_cuts, explore_double_faults
from pi_workflows.chaos.crash_faults import explore_faults
from pi_workflows.chaos.crash_ground import Ground, ground_of
from pi_workflows.chaos.crash_repeating import repeat
from pi_workflows.chaos.crash_words import FLUSH_FAILED, KILLED
from pi_workflows.chaos.scene import Scene
from runtime.chaos.disk_survivors import Persistence
from runtime.chaos.engine import Repeated, Wanted
from runtime.chaos.moves import CARRIED_OUT
from runtime.chaos.outcome import Tally
from runtime.chaos.scenario import Scenario

POWER_CUTS: Final = "power-cut states"
DOUBLE_FAULTS: Final = "double faults"
IO_ERRORS: Final = "I/O errors"

POWER_CUTS_MIN: Final = 4_000
"""Of one scenario, unless somebody asks for another number."""

DOUBLE_FAULTS_MIN: Final = 2_000
"""As `POWER_CUTS_MIN`."""

_GOALS: Final = {POWER_CUTS: POWER_CUTS_MIN, DOUBLE_FAULTS: DOUBLE_FAULTS_MIN, IO_ERRORS: 0}

KINDS: Final = CARRIED_OUT | {"power_cut", "disk_full", "io_error", "fsync_failure"}
"""What can go wrong here: what the disk does always, and in every drawn order what orders know."""

_ENDS: Final = {POWER_CUTS: 0.6, DOUBLE_FAULTS: 0.8, IO_ERRORS: 1.0}
"""Which part of a short budget has gone when each ends: one long life may take most of it."""

_POWER_CUT_S: Final = 1 / 1_650
_DOUBLE_FAULT_S: Final = 1 / 1_030
_WORKLOAD_S: Final = 1_300 / 160
"""About how long each takes when nobody disturbs it: the rates of `campaign.NIGHTLY`."""


def ends_of(goals: Mapping[str, int]) -> Mapping[str, float]:
    """Return by unit which part of the budget has gone when it ends.

    Where many power cuts are wanted each unit gets what it needs.

    Args:
        goals: as in `Wanted`.
    """
    if goals.get(POWER_CUTS, 0) <= POWER_CUTS_MIN:
        return _ENDS
    needed_s = {
        POWER_CUTS: goals[POWER_CUTS] * _POWER_CUT_S,
        DOUBLE_FAULTS: goals.get(DOUBLE_FAULTS, DOUBLE_FAULTS_MIN) * _DOUBLE_FAULT_S,
        IO_ERRORS: max(goals.get(WORKLOADS, 1), 1) * _WORKLOAD_S,
    }
    gone = itertools.accumulate(needed_s.values())
    return {unit: each / sum(needed_s.values()) for unit, each in zip(needed_s, gone, strict=True)}


@final
class CrashEngine:
    """Explores a `Scenario[Scene]`; see `runtime.chaos.engine.Engine`."""

    name: Final = "crash"

    def explore(self, scenario: Scenario[Scene], wanted: Wanted) -> list[Tally]:
        """Explore, and return one tally each of what is counted, workloads included."""
        began_s = time.monotonic()
        tallies: list[Tally] = []
        with ground_of(scenario) as ground:
            for unit, share in ends_of(wanted.goals).items():
                account = Account(
                    Tally(scenario.name, self.name, unit, distinct=0),
                    wanted,
                    lambda choices, seed: repeat(ground, choices, seed).finding,
                    goal=_GOALS[unit],
                    ends_s=None if wanted.budget_s is None else began_s + wanted.budget_s * share,
                )
                tallies += _explored(ground, account, wanted)
        return tallies

    def repeat(
        self,
        scenario: Scenario[Scene],
        choices: Mapping[str, str],
        seed: int | None,
        until: int | None = None,
    ) -> Repeated:
        """Make one power cut or fault again; see `Engine.repeat`."""
        with ground_of(scenario) as ground:
            return repeat(ground, choices, seed or 0, until)


def _explored(ground: Ground, account: Account, wanted: Wanted) -> list[Tally]:
    """Explore one unit; return its tally, and that of the workloads with the I/O errors."""
    tally, workloads = account.tally, Workloads(account, wanted)
    ground.judge.begin_counting(ground.check_names)
    if tally.unit == POWER_CUTS:
        explore_cuts(ground, account)
    elif tally.unit == DOUBLE_FAULTS:
        explore_double_faults(ground, account)
    else:
        explore_faults(ground, account, workloads)
    tally.checks.update(ground.judge.checks)
    tally.examined = ground.judge.examined
    tally.fault_kinds = _kinds_of(tally.unit)
    tally.declare(ground.kinds, KINDS, [*ground.check_names, *ground.final_names])
    tallies = [account.close()]
    return [*tallies, workloads.close()] if tally.unit == IO_ERRORS else tallies


def _kinds_of(unit: str) -> frozenset[str]:
    if unit == POWER_CUTS:
        return frozenset(f"power cut, kept {persistence}" for persistence in Persistence)
    if unit == DOUBLE_FAULTS:
        return frozenset(f"{first}, then power cut" for first in (KILLED, FLUSH_FAILED))
    return frozenset()
