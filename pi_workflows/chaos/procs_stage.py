"""A scenario on its stage: a process for each actor, and a database that they share."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, final

from pi_workflows.chaos.procs_subject import StoreSubject
from pi_workflows.chaos.procs_world import SceneWorld, SharedDatabase
from pi_workflows.chaos.scene import Scene
from pi_workflows.chaos.scene_stage import declared, memory_folder
from runtime.chaos.choices import Choices
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.own_code import OwnCode
from runtime.chaos.procs_child import serve
from runtime.chaos.procs_order import CheckFailed, Order, Played
from runtime.chaos.procs_pool import Pool, PooledProcess
from runtime.chaos.scenario import Budgets, Scenario
from runtime.sync_points import SyncPoint

ORDERS_PER_DATABASE: Final = 400
"""Then its file is verified as a whole and a new one takes its place."""


@final
class Stage:
    """Plays orders of one scenario; `opened` makes one.

    Attributes:
        budgets: what the scenario allows to go wrong.
        checks: how often each check has run.
        damages: files that were not what they must be at their end.
        pool: the processes.
    """

    def __init__(self, scenario: Scenario[Scene], pool: Pool, folder: Path) -> None:
        """Look at what the scenario declares; nothing is opened yet.

        Raises:
            ScenarioRefused: it declares no actor.
        """
        self._scenario: Final = scenario
        self._own: Final = OwnCode.at(scenario.place)
        self._folder: Final = folder
        self._database: SharedDatabase | None = None
        self._databases = 0
        self._orders = 0
        self.damages: Final[list[CheckFailed]] = []
        self.pool: Final = pool
        scene = declared(scenario)
        self.budgets: Final = scene.budgets
        self._names: Final = sorted(name for plan in scene.actors for name in plan.names)
        if not self._names:
            raise ScenarioRefused(f"{scenario.place}: declare at least one actor.")
        self._processes: Final[dict[str, PooledProcess]] = {}
        self.checks: Final = Counter(dict.fromkeys([*scene.always_checks, *scene.final_checks], 0))

    def play(
        self,
        choices: Choices,
        budgets: Budgets,
        *,
        until: int | None = None,
        on_new_file: bool = False,
    ) -> Played:
        """Play one order.

        Args:
            budgets: what may go wrong in it.
            until: stop after so many entries of the timeline; None plays to the end.
            on_new_file: share the file with no order before.

        Raises:
            ScenarioRefused: the scenario cannot be played as it is written.
            PoolBroken: the harness, or the product below it, failed.
        """
        scene = declared(self._scenario)
        database = self._ready(scene, on_new_file=on_new_file)
        self._orders += 1
        world = SceneWorld(scene, database, self.checks, self._own)
        return Order(self.pool, self._processes, budgets, choices, world).play(until)

    def end_database(self) -> None:
        """Verify the present file and remove it."""
        database, self._database = self._database, None
        if database is None:
            return
        try:
            database.end()
        except CheckFailed as broken:
            self.damages.append(broken)

    def close(self) -> None:
        """Leave no file."""
        if self._database is not None:
            self._database.remove()

    def _ready(self, scene: Scene, *, on_new_file: bool) -> SharedDatabase:
        """Return the database with its first rows, all processes standing by."""
        if on_new_file or self._orders >= ORDERS_PER_DATABASE:
            self.end_database()
        if self._database is None:
            self._databases += 1
            self._orders = 0
            self._database = SharedDatabase(
                self._folder / f"state-{self._databases}", scene, self._own
            )
            for process in self._processes.values():
                self._open(process)
        else:
            self._database.renew()
        for name in self._names:
            if name not in self._processes or self._processes[name].is_gone:
                self._processes[name] = self.pool.fork()
                self._open(self._processes[name])
        return self._database

    def _open(self, process: PooledProcess) -> None:
        if not process.is_gone:
            assert self._database is not None, "there is one by now"
            process.line.send({"open": str(self._database.path)})
            process.line.receive()


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def opened(
    scenario: Scenario[Scene], points: Collection[SyncPoint], folder: Path | None
) -> Generator[Stage]:
    """Open a stage; at the end no process and no file of it is left.

    Args:
        points: where processes stand in a command.
        folder: databases are made in a new folder inside; None means memory where it is a
            folder, else the place for temporary files.

    Raises:
        ScenarioRefused: it declares no actor, or the folder is the live state directory.
    """
    place = folder or memory_folder()
    subject = StoreSubject(scenario, points)
    with (
        tempfile.TemporaryDirectory(prefix="pi-workflows-chaos-", dir=place) as made,
        subject.guard.installed(),
        Pool(partial(serve, subject=subject), partial(_remove, made)) as pool,
    ):
        stage = Stage(scenario, pool, Path(made))
        try:
            yield stage
        finally:
            stage.close()
