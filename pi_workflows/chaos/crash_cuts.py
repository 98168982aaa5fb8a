"""Power cuts: after every operation of a life, under every model of persistence."""

import itertools
import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from pi_workflows.chaos.crash_account import Account, order_of
from pi_workflows.chaos.crash_ground import Ground, Lived
from pi_workflows.chaos.crash_life import Life, complaint_of
from pi_workflows.chaos.crash_reopening import ToldOf
from pi_workflows.chaos.crash_words import (
    FIRST,
    FIRST_AT,
    FLUSH_FAILED,
    KILLED,
    POWER_CUT,
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


def cuts(disk: DiskModel, label: str, seed: int, tearings: int = TEARINGS) -> Iterator[Cut]:
    """Cut the power now, in every way that makes a difference; tear in so many ways."""
    if disk.is_settled:
        yield Cut(Persistence.KEPT, 0, survive(disk, label, seed, Persistence.KEPT, 0))
        return
    for persistence in Persistence:
        for tearing in range(1 if persistence in _WHOLE else tearings):
            left = survive(disk, label, seed, persistence, tearing)
            yield Cut(persistence, tearing, left)


def survive(
    disk: DiskModel, label: str, seed: int, persistence: Persistence, tearing: int
) -> Survivors:
    """Return what is left; a function of the arguments."""
    draws = Chance(seed).stream(f"{label} {tearing}")
    return survivors(disk, persistence, draws)


class Following(NamedTuple):
    """A life that is followed operation by operation, and what is known of it.

    Attributes:
        disk: as it is before the next operation; it goes on with the life.
        told: what whoever finds one of its versions may have been told.
        decided: the choices that have led here.
        fault: what its power cuts count as; those without a first fault by model of persistence.
        seen: what power cuts have left before; it grows.
    """

    life: Life
    disk: DiskModel
    seed: int
    told: ToldOf
    decided: dict[str, str]
    fault: str
    seen: set[object]


def explore_cuts(ground: Ground, account: Account) -> None:
    """Cut the power in life after life, until there are enough; the first is cut everywhere."""
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
    life, unusual = lived.life, dict(lived.choices.unusual)
    here = Following(life, lived.disk.copy(), lived.seed, life.told(), unusual, POWER_CUT, seen)
    step, tearings = 1, TEARINGS
    if account.goal:
        step = max(1, life.position * _STATES_PER_OPERATION // account.goal)
    if 0 < account.goal < life.position * _STATES_PER_OPERATION:
        tearings = 1
    is_whole = account.begin_life(life.position)
    for position, operation in enumerate(life.log.operations, 1):
        here.disk.apply(operation)
        if not is_whole and (position + lived.seed) % step:
            continue
        if account.is_over() if is_whole else account.is_enough():
            return
        _cut(ground, account, here, position, tearings)
        account.reached_place()


def _cut(
    ground: Ground, account: Account, here: Following, position: int, tearings: int = TEARINGS
) -> None:
    """Cut the power after an operation, in every way; what was left before counts once.

    What may be found there can be more than when it was left before, so it is judged anew.
    """
    operation = here.life.log.operations[position - 1]
    for cut in cuts(here.disk, operation.label, here.seed, tearings):
        key = cut.left.key
        if key not in here.seen:
            here.seen.add(key)
            kept = f", kept {cut.persistence}" if here.fault == POWER_CUT else ""
            account.count(f"{here.fault}{kept}")
        complaint = ground.complaint(here.life, cut.left, position, here.told)
        if complaint is not None:
            chosen = cut_choices(operation.label, cut.persistence, cut.tearing)
            account.broke({**here.decided, **chosen}, here.seed, complaint)


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
        account.begin_life(len(_places(lived)))
        for first in _first_faults(lived):
            if account.is_enough():
                return
            if not _explore_restart(ground, account, lived, first):
                return
            account.reached_place()


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


def _places(lived: Lived) -> list[tuple[int, str]]:
    """Return where a first fault can strike: after which operation, and which."""
    flushes = [
        (position, FLUSH_FAILED)
        for position, operation in enumerate(lived.life.log.operations, 1)
        if operation.doing is Doing.SYNC
    ]
    return [(position, KILLED) for position in range(1, lived.life.position + 1)] + flushes


def _first_faults(lived: Lived) -> Iterator[First]:
    """Return every first fault of a life, kills and failed flushes in turn, evenly spread."""
    operations = lived.life.log.operations
    places = _places(lived)
    kinds = [
        _spread([place for place in places if place[1] == kind], lived.seed)
        for kind in (KILLED, FLUSH_FAILED)
    ]
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


def _explore_restart(ground: Ground, account: Account, lived: Lived, first: First) -> bool:
    """Cut the power everywhere in the start after a first fault; False if time was up."""
    life, seed = lived.life, lived.seed
    restarted = ground.restart(first.disk, life.history, first.position, seed)
    began = {**lived.choices.unusual, f"{FIRST}#1": first.kind, f"{FIRST_AT}#1": first.label}
    complaint = complaint_of(restarted)
    if complaint is not None:
        account.broke(began, seed, complaint)
        return True
    known = life.told_between(first.position, first.position)
    fault = f"{first.kind}, then {POWER_CUT}"
    here = Following(restarted, first.disk.copy(), seed, lambda _: known, began, fault, set())
    for position, operation in enumerate(restarted.log.operations, 1):
        if account.is_over():
            return False
        here.disk.apply(operation)
        _cut(ground, account, here, position)
    return True
