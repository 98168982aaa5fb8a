"""Power cuts: after every operation of a life, under every model of persistence."""

import itertools
import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from pi_workflows.chaos.crash_account import Account, order_of
from pi_workflows.chaos.crash_ground import Ground, Lived
from pi_workflows.chaos.crash_life import complaint_of
from pi_workflows.chaos.crash_words import (
    FIRST,
    FIRST_AT,
    FLUSH_FAILED,
    KILLED,
    cut_choices,
)
from runtime.chaos.choices import Choices
from runtime.chaos.disk_log import Doing, Operation
from runtime.chaos.disk_model import DiskModel
from runtime.chaos.disk_survivors import Persistence, Survivors, survivors
from runtime.simulation.chance import Chance

TEARINGS: Final = 2
"""In how many ways each power cut tears what it tears."""

_STATES_PER_OPERATION: Final = 5
_GOLDEN: Final = (math.sqrt(5) - 1) / 2

_WHOLE: Final = frozenset({Persistence.KEPT, Persistence.DROPPED})


class Cut(NamedTuple):
    """A power cut after some operation."""

    persistence: Persistence
    tearing: int
    left: Survivors


def cuts(disk: DiskModel, label: str, seed: int) -> Iterator[Cut]:
    """Cut the power now, in every way that makes a difference."""
    if disk.is_settled:
        yield Cut(Persistence.KEPT, 0, survive(disk, label, seed, Persistence.KEPT, 0))
        return
    for persistence in Persistence:
        for tearing in range(1 if persistence in _WHOLE else TEARINGS):
            left = survive(disk, label, seed, persistence, tearing)
            yield Cut(persistence, tearing, left)


def survive(
    disk: DiskModel, label: str, seed: int, persistence: Persistence, tearing: int
) -> Survivors:
    """Return what is left; a function of the arguments."""
    draws = Chance(seed).stream(f"{label} {tearing}")
    return survivors(disk, persistence, draws)


def explore_cuts(ground: Ground, account: Account) -> None:
    """Cut the power in life after life, until there are enough."""
    seen: set[object] = set()
    for seed in account.seeds():
        if account.is_enough():
            return
        lived = ground.live(Choices(order_of(seed)), seed)
        complaint = complaint_of(lived.life)
        if complaint is not None:
            account.broke(dict(lived.choices.unusual), seed, complaint)
            continue
        _explore_life(ground, account, lived, seen)


def _explore_life(ground: Ground, account: Account, lived: Lived, seen: set[object]) -> None:
    life, disk, seed = lived.life, lived.disk.copy(), lived.seed
    told = life.told()
    step = 1
    if account.goal:
        step = max(1, life.position * _STATES_PER_OPERATION // account.goal)
    for position, operation in enumerate(life.log.operations, 1):
        disk.apply(operation)
        if (position + seed) % step:
            continue
        if account.is_enough():
            return
        for cut in cuts(disk, operation.label, seed):
            key = cut.left.key
            if key in seen:
                continue
            seen.add(key)
            account.count(f"power cut, kept {cut.persistence}")
            complaint = ground.judge.complaint(cut.left, life.history, position, told)
            if complaint is not None:
                chosen = cut_choices(operation.label, cut.persistence, cut.tearing)
                account.broke({**lived.choices.unusual, **chosen}, seed, complaint)


class First(NamedTuple):
    """A first fault, which ends a server.

    Attributes:
        disk: as it is then.
        position: in the life that it ends; whoever was answered by then relies on the answer.
    """

    kind: str
    label: str
    disk: DiskModel
    position: int


def explore_double_faults(ground: Ground, account: Account) -> None:
    """Kill a server, start the next one, and cut the power in the middle of that."""
    for seed in account.seeds():
        if account.is_enough():
            return
        lived = ground.live(Choices(order_of(seed)), seed)
        if complaint_of(lived.life) is not None:
            return  # Found by the power cuts.
        for first in _first_faults(lived):
            if account.is_enough():
                return
            _explore_restart(ground, account, lived, first)


def first_faults_at(disk: DiskModel, operation: Operation, position: int) -> list[First]:
    """Return what can end a server instead of this operation, or right after it.

    Args:
        disk: as it is before the operation.
        position: after it.
    """
    after = disk.copy()
    after.apply(operation)
    found = [First(KILLED, operation.label, after, position)]
    if operation.doing is Doing.SYNC:
        lost = disk.copy()
        lost.apply(operation.as_failed())
        found.append(First(FLUSH_FAILED, operation.label, lost, position - 1))
    return found


def _first_faults(lived: Lived) -> Iterator[First]:
    """Return every first fault of a life, kills and failed flushes in turn, evenly spread."""
    operations = lived.life.log.operations
    positions = range(1, len(operations) + 1)
    kills = [(position, KILLED) for position in positions]
    flushes = [
        (position, FLUSH_FAILED)
        for position in positions
        if operations[position - 1].doing is Doing.SYNC
    ]
    kinds = [_spread(kills, lived.seed), _spread(flushes, lived.seed)]
    pairs = itertools.zip_longest(*(kinds if lived.seed % 2 == 0 else reversed(kinds)))
    for position, kind in (each for pair in pairs for each in pair if each is not None):
        disk = lived.disk.copy()
        for operation in operations[: position - 1]:
            disk.apply(operation)
        for first in first_faults_at(disk, operations[position - 1], position):
            if first.kind == kind:
                yield first


def _spread(places: list[tuple[int, str]], seed: int) -> list[tuple[int, str]]:
    """Return them in an order whose every beginning is spread over all of them."""
    order = sorted(range(len(places)), key=lambda number: ((number + seed) * _GOLDEN + 0.5) % 1)
    return [places[number] for number in order]


def _explore_restart(ground: Ground, account: Account, lived: Lived, first: First) -> None:
    life, seed = lived.life, lived.seed
    restarted = ground.restart(first.disk, life.history, first.position, seed)
    began = {**lived.choices.unusual, f"{FIRST}#1": first.kind, f"{FIRST_AT}#1": first.label}
    complaint = complaint_of(restarted)
    if complaint is not None:
        account.broke(began, seed, complaint)
        return
    told = [life.told_between(first.position, first.position)] * len(restarted.history.versions)
    seen: set[object] = set()
    disk = first.disk.copy()
    for position, operation in enumerate(restarted.log.operations, 1):
        disk.apply(operation)
        for cut in cuts(disk, operation.label, seed):
            key = cut.left.key
            if key in seen:
                continue
            seen.add(key)
            account.count(f"{first.kind}, then power cut")
            complaint = ground.judge.complaint(cut.left, restarted.history, position, told)
            if complaint is not None:
                chosen = cut_choices(operation.label, cut.persistence, cut.tearing)
                account.broke({**began, **chosen}, seed, complaint)
