"""Carries out a campaign with several processes: adds up, makes findings small, keeps them."""

import dataclasses
import re
import shlex
from collections import Counter
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Final, Protocol, cast, final

from pi_workflows.chaos.campaign import SAMPLED, UNITS, Campaign, Item
from pi_workflows.chaos.spreading import Shares, Spreading, monotonic_s
from pi_workflows.chaos.tasks import Exploration, Shrinking, Task
from pi_workflows.chaos.versions import versions
from pi_workflows.protocol.canonical import JsonObject
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import DRAWN, Finding, Tally
from runtime.chaos.replay_file import ReplayFile
from runtime.chaos.report import Failure, Report
from runtime.chaos.shrinking import seconds_for
from runtime.chaos.tally_json import finding_of, tally_of

REPLAY: Final = "pi-workflows chaos replay"
FOLDER: Final = Path("chaos-failures")

_BUDGET_S_MIN: Final = 0.2
"""Whatever is begun gets so much; when the time is over, nothing is begun any more."""


class Watcher(Protocol):
    """Is shown how far an exploration is."""

    def begun(self, item: Item) -> None:
        """A process has begun with its part."""
        ...

    def told(self, item: Item, unit: str, count: int) -> None:
        """So many more were explored."""
        ...

    def ended(self, item: Item, tallies: list[Tally]) -> None:
        """All parts have ended; these are the figures."""
        ...

    def shrinking(self, finding: Finding) -> None:
        """A finding is being made small."""
        ...

    def tick(self) -> None:
        """Some time has passed."""
        ...


@final
class CarryingOut:
    """A campaign under way; what there is of it can be reported at any time."""

    def __init__(
        self, campaign: Campaign, processes: int, watcher: Watcher, folder: Path = FOLDER
    ) -> None:
        """Nothing happens before `run`.

        Args:
            folder: where replay files of findings go; it is made when there is one.
        """
        self._campaign: Final = campaign
        self._processes: Final = processes
        self._watcher: Final = watcher
        self._folder: Final = folder
        self._began_at: Final = monotonic_s()
        self._shares: Final = Shares(processes)
        self._goals: Final[dict[int, dict[str, int]]] = {}
        self._tallies: Final[list[dict[str, Tally]]] = [{} for _ in campaign.items]
        self._parts: Final[Counter[int]] = Counter()
        self._skipped: Final[set[int]] = set()
        self._under_way: Final[dict[tuple[int, int], Counter[str]]] = {}
        self._kept: Final[set[tuple[str, str, str]]] = set()
        self._failures: Final[dict[Path, Failure]] = {}

    def run(self) -> None:
        """Explore, then make findings small.

        Raises:
            ExploringFailed: a process has ended, or a task has failed by a bug.
            TaskRefused: a scenario was refused.
            OSError: a replay file cannot be written.
        """
        self.hand_out()
        with Spreading(self._processes, self) as spreading:
            spreading.run()

    def hand_out(self) -> None:
        """Let `next_task` give out every item, in its order."""
        for index, item in enumerate(self._campaign.items):
            if item.is_split:
                self._shares.add_for_each(partial(self._task, index))
            else:
                self._shares.add_whole(partial(self._task, index, 0))

    def report(self, stopped_by: Signals | None = None) -> Report:
        """Return what there is by now; parts that are missing make nothing complete.

        Args:
            stopped_by: the signal by which it was ended; then all that is missing is owed, and of
                parts under way there is what they have told of.
        """
        tallies: list[Tally] = []
        needless = self._needless()
        for index, each in enumerate(self._tallies):
            if self._parts[index] == self._parts_of(index):
                tallies += each.values()
                continue
            if stopped_by is None:
                tallies += map(_in_part, each.values())
            elif index not in needless:
                tallies += self._owed(index)
                continue
            if index in self._skipped:
                tallies.append(_nothing_of(self._campaign.items[index]))
        return Report(
            tallies=tallies,
            promised=self._campaign.promised,
            failures=list(self._failures.values()),
            versions=versions(),
            seconds=monotonic_s() - self._began_at,
            stopped_by=stopped_by,
        )

    def _owed(self, index: int) -> list[Tally]:
        """Return what there is of an item that has not ended, as a share of what is owed."""
        item, found = self._campaign.items[index], dict(self._tallies[index])
        told: Counter[str] = Counter()
        for (each, _), counts in self._under_way.items():
            if each == index:
                told += counts
        for unit in told:
            found.setdefault(unit, Tally(_name_of(item), item.engine, unit))
        parts = [_in_part(tally, told[unit]) for unit, tally in found.items()]
        for part in parts:
            part.all_promised = True
        return parts or [_nothing_of(item)]

    def next_task(self, number: int) -> Task | None:
        """Return what a process is to do next."""
        task = self._shares.next_task(number)
        if isinstance(task, Shrinking):
            self._watcher.shrinking(task.finding)
        return task

    def told(self, task: Task, unit: str, count: int) -> None:
        """Show how far it is."""
        self._watcher.told(self._item_of(task), unit, count)
        self._under_way.setdefault(_part_of(task), Counter())[unit] += count

    def tick(self) -> None:
        """Show that time passes."""
        self._watcher.tick()

    def answered(self, number: int, task: Task, answer: JsonObject) -> None:
        """Add up what a process has found, or keep what it has made small."""
        del number
        if isinstance(task, Shrinking):
            self._made_small(task, answer)
            return
        index = task.item
        self._under_way.pop(_part_of(task), None)
        for document in cast("list[JsonObject]", answer["tallies"]):
            tally = tally_of(document)
            self._add(index, tally)
            for finding in tally.findings:
                self._found(index, finding)
        self._parts[index] += 1
        if self._parts[index] == self._parts_of(index):
            self._watcher.ended(self._campaign.items[index], list(self._tallies[index].values()))

    def _task(self, index: int, number: int) -> Exploration | None:
        """Return a process's part of an item, with the time and the goals it has now."""
        item = self._campaign.items[index]
        needless = self._needless()
        if index in needless:
            return None
        elapsed_s = monotonic_s() - self._began_at
        budget_s = self._campaign.budget_of(index, elapsed_s, self._processes, needless)
        if budget_s == 0:
            self._skipped.add(index)
            return None
        if index not in self._goals:
            self._goals[index] = self._campaign.goals_of(index, self._done(), needless)
            self._watcher.begun(item)
        wanted = Wanted(
            is_all=item.is_all,
            seeds=item.seeds,
            budget_s=None if budget_s is None else max(budget_s, _BUDGET_S_MIN),
            part=(number, self._parts_of(index)),
            findings_max=self._campaign.findings_max,
            goals=self._goals[index],
        )
        return Exploration(item.ref, item.engine, wanted, index)

    def _needless(self) -> set[int]:
        """Return the samples of what is known completely by now."""
        items = self._campaign.items
        known = {
            (items[index].ref, items[index].engine)
            for index, tallies in enumerate(self._tallies)
            if tallies
            and self._parts[index] == self._parts_of(index)
            and all(tally.complete for tally in tallies.values())
        }
        return {
            index
            for index, item in enumerate(items)
            if not item.is_all and item.seeds is None and (item.ref, item.engine) in known
        }

    def _parts_of(self, index: int) -> int:
        return self._processes if self._campaign.items[index].is_split else 1

    def _item_of(self, task: Task) -> Item:
        return self._campaign.items[task.item]

    def _done(self) -> Counter[str]:
        done: Counter[str] = Counter()
        for tallies in self._tallies:
            for tally in tallies.values():
                done[tally.unit] += tally.done
        return done

    def _add(self, index: int, part: Tally) -> None:
        """Add a part to what its item has; what the command asked for is promised."""
        item = self._campaign.items[index]
        part.all_promised = item.owes(part.unit)
        known = self._tallies[index].setdefault(part.unit, part)
        if known is not part:
            known.add(part)
        if item.seeds is not None and part.unit in SAMPLED:
            known.promised = len(item.seeds)

    def _found(self, index: int, finding: Finding) -> None:
        """Keep the first finding of its kind; the others are counted only."""
        ref = self._campaign.items[index].ref
        kind = (ref, finding.engine, finding.promise)
        if kind in self._kept:
            return
        self._kept.add(kind)
        # As it is, for who knows whether there will be time to make it small.
        self._keep(ref, finding, self._folder / replay_name(finding), None)
        if seconds := self._campaign.shrink_s_max:
            self._shares.add_later(lambda: Shrinking(ref, finding, self._shrink_s(seconds), index))

    def _shrink_s(self, most_s: float) -> float:
        elapsed_s = monotonic_s() - self._began_at
        return seconds_for(most_s, self._campaign.budget_s, elapsed_s)

    def _made_small(self, task: Shrinking, answer: JsonObject) -> None:
        small = finding_of(cast("JsonObject", answer["finding"]))
        if not answer["comesBack"]:
            name = f"the break of {task.finding.promise} does not come back"
            tallies = self._tallies[task.item].values()
            next(iter(tallies)).not_deterministic.append(name)
        path = self._folder / replay_name(task.finding)
        failure = self._keep(task.ref, small, path, len(task.finding.choices))
        if answer["comesBack"] and not answer["isMinimal"]:
            self._failures[path] = dataclasses.replace(failure, is_cut_short=True)

    def _keep(self, ref: str, finding: Finding, path: Path, shrunk_from: int | None) -> Failure:
        ReplayFile.of(finding, ref, versions()).write(path)
        replay = f"{REPLAY} {shlex.quote(str(path))}"
        self._failures[path] = failure = Failure(finding, replay, shrunk_from)
        return failure


def _in_part(tally: Tally, more: int = 0) -> Tally:
    """Return the figures of an item of which a part has not answered.

    Args:
        more: how many that part has told of.
    """
    explored = 0 if tally.is_shared else tally.explored + more
    distinct = tally.distinct
    if distinct is not None and tally.unit not in DRAWN:
        distinct += more
    return dataclasses.replace(tally, complete=False, explored=explored, distinct=distinct)


def _part_of(task: Task) -> tuple[int, int]:
    return task.item, task.wanted.part[0] if isinstance(task, Exploration) else 0


def _name_of(item: Item) -> str:
    return item.ref.rpartition("::")[2]


def _nothing_of(item: Item) -> Tally:
    """Return the figures of what there was no time for: that it is owed."""
    return Tally(_name_of(item), item.engine, UNITS[item.engine][0], all_promised=True)


def replay_name(finding: Finding) -> str:
    """Return the name of a finding's replay file."""
    name = f"{finding.scenario}-{finding.engine}-{finding.promise}-{finding.digest[:8]}"
    return f"{re.sub(r'[^0-9A-Za-z_.-]+', '-', name)}.json"
