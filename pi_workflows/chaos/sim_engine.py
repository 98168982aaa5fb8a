"""The engine `sim`: the whole installation in one loop, one exploration per seed."""

import time
from collections.abc import Mapping
from typing import Final, final

from pi_workflows.chaos.garbage import collected_between
from pi_workflows.chaos.playing import Played, play, staged
from pi_workflows.chaos.stage import Stage
from pi_workflows.chaos.swarm import Swarm
from runtime.chaos.choices import Replayed
from runtime.chaos.complaints import PROMISE, promise_of
from runtime.chaos.engine import Repeated, Wanted
from runtime.chaos.outcome import Finding, Tally
from runtime.chaos.scenario import Scenario

UNIT: Final = "seeds"

SEEDS: Final = 21
"""Seeds of a scenario at each change, where nobody wants another number."""

SEEDS_CORE: Final = 40

SAMPLE_EVERY: Final = 25
"""How often a seed is explored twice, to see whether it goes the same way."""

UNKNOWN: Final = frozenset({"shared_batch"})
"""Kinds of faults that cannot be had here: which commands share a batch is the server's affair."""

TELL_EVERY: Final = 8


@final
class SimEngine:
    """Explores scenarios of whole installations; see `runtime.chaos.engine.Engine`."""

    @property
    def name(self) -> str:
        """`sim`."""
        return "sim"

    def explore(self, scenario: Scenario[Stage], wanted: Wanted) -> list[Tally]:
        """Explore one seed after the other; see `Engine.explore`.

        Every seed brings its own order of everything and its own mix of faults.
        """
        began = time.monotonic()
        seeds = wanted.seeds or range(
            wanted.goals.get(UNIT, SEEDS_CORE if scenario.core else SEEDS)
        )
        part, parts = wanted.part
        mine = seeds[part::parts]
        tally = _new_tally(scenario, len(mine))
        told = 0
        with collected_between() as collect:
            for number, seed in enumerate(mine):
                spent = time.monotonic() - began
                if wanted.budget_s is not None and spent >= wanted.budget_s:
                    break
                if tally.failed >= wanted.findings_max:
                    break
                self._explore_one(scenario, seed, tally, again=number % SAMPLE_EVERY == 0)
                if wanted.tell is not None and tally.explored - told >= TELL_EVERY:
                    wanted.tell(UNIT, tally.explored - told)
                    told = tally.explored
                collect()
        if wanted.tell is not None and tally.explored > told:
            wanted.tell(UNIT, tally.explored - told)
        tally.seconds = time.monotonic() - began
        return [tally]

    def repeat(
        self,
        scenario: Scenario[Stage],
        choices: Mapping[str, str],
        seed: int | None,
        until: int | None = None,
    ) -> Repeated:
        """Explore once, as these choices say; see `Engine.repeat`."""
        source = Replayed(choices)
        played = play(scenario, seed or 0, source)
        finding = _finding(scenario, seed or 0, played)
        timeline = played.timeline.moments()
        if until is not None and until < len(timeline):
            finding, timeline = None, timeline[:until]
        return Repeated(finding, timeline, played.trace.digest(), frozenset(source.unused))

    def _explore_one(
        self, scenario: Scenario[Stage], seed: int, tally: Tally, *, again: bool
    ) -> None:
        played = play(scenario, seed, Swarm(seed))
        tally.explored += 1
        tally.faults += played.fired
        tally.checks += played.checks
        finding = _finding(scenario, seed, played)
        if finding is not None:
            tally.broken += 1
            tally.findings.append(finding)
        if again or finding is not None:
            repeated = play(scenario, seed, Replayed(played.choices.unusual))
            if repeated.trace.digest() != played.trace.digest():
                tally.not_deterministic.append(f"seed {seed}")


def _new_tally(scenario: Scenario[Stage], promised: int) -> Tally:
    stage = staged(scenario)
    kinds, checks = stage.budgets.kinds, [*stage.always_checks, *stage.final_checks]
    tally = Tally(scenario.name, "sim", UNIT, promised=promised, fault_kinds=kinds - UNKNOWN)
    tally.declare(kinds, kinds - UNKNOWN, checks)
    tally.checks.update(dict.fromkeys(checks, 0))
    return tally


def _finding(scenario: Scenario[Stage], seed: int, played: Played) -> Finding | None:
    error = played.error
    if error is None:
        return None
    complaint = str(error).split("\n", 1)[0] or type(error).__name__
    return Finding(
        scenario.name,
        "sim",
        _promise(scenario, error, complaint),
        complaint,
        dict(played.choices.unusual),
        seed,
        played.timeline.moments(),
        played.trace.digest(),
    )


def _promise(scenario: Scenario[Stage], error: Exception, complaint: str) -> str:
    named: object = getattr(error, "promise", None)
    name = named if isinstance(named, str) else type(error).__name__
    return name if PROMISE.fullmatch(name) else promise_of(complaint, scenario.promises, name)
