"""The machines on which one scenario is played with a disk that is recorded."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

from actors.errors import ServerRefused
from actors.state_files import DiskStateFiles
from pi_workflows.chaos.crash_judge import Judge
from pi_workflows.chaos.crash_life import Foretold, Life, end, start
from pi_workflows.chaos.crash_playing import play
from pi_workflows.chaos.crash_reopening import Reopening, ToldOf
from pi_workflows.chaos.inline_store import CountedIds
from pi_workflows.chaos.scene import Scene
from pi_workflows.chaos.scene_stage import memory_folder, stage_of
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.choices import Choices
from runtime.chaos.disk_faults import CALLS, Faults
from runtime.chaos.disk_history import History
from runtime.chaos.disk_image import laid_out, lay_out
from runtime.chaos.disk_log import DiskLog
from runtime.chaos.disk_model import DiskModel
from runtime.chaos.disk_survivors import Survivors
from runtime.chaos.guard import Guard
from runtime.chaos.orders import Stage
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.own_code import OwnCode
from runtime.chaos.scenario import Scenario
from runtime.chaos.subject import MarksLost, SteppedClock
from runtime.simulation.chance import Chance
from runtime.simulation.clock import START_MS
from store.batch import Batch, run_alone
from store.chaos.recording import Recording, recorded
from store.chaos.recovered import Recoverer
from store.errors import Rejected, StoreError

_RESTARTED_IDS: Final = 500_000
"""Ids drawn before a restarted server's own."""


@dataclass(slots=True)
class Lived:
    """A life, and how it was decided.

    Attributes:
        disk: as it was before.
    """

    life: Life
    choices: Choices
    seed: int
    disk: DiskModel


@dataclass(frozen=True, slots=True)
class Failing:
    """A disk that fails in a life which is lived again.

    Attributes:
        reference: the same life without faults.
    """

    faults: Faults
    reference: Life


@final
class Ground:
    """What the lives of one scenario have in common.

    Attributes:
        scenario: which one.
        judge: of what power cuts leave.
        check_names: the invariants that are held after each power cut.
        final_names: those that are held at the end of each life.
        kinds: of faults that the scenario allows.
    """

    def __init__(
        self, scenario: Scenario[Scene], stage: Stage, paths: StatePaths, judge: Judge
    ) -> None:
        self.scenario: Final = scenario
        self.judge: Final = judge
        self._stage: Final = stage
        self._paths: Final = paths
        self._image: dict[str, bytes] = {}
        self._ids_drawn = 0
        self.check_names: tuple[str, ...] = ()
        self.final_names: tuple[str, ...] = ()
        self.kinds: frozenset[str] = frozenset()

    def prepare(self) -> None:
        """Create the database and carry out what the scenario prepares, once for all lives.

        Raises:
            ScenarioRefused: a command of the preparation is refused, or there is no database.
        """
        scene = self._stage.declare()
        assert isinstance(scene, Scene), "the engine was given a scenario of scenes"
        self.check_names = tuple(scene.always_checks)
        self.final_names = tuple(scene.final_checks)
        self.kinds = scene.budgets.kinds
        state = DiskStateFiles(self._paths)
        state.prepare()
        if scene.is_first_start:
            if scene.preparation:
                raise ScenarioRefused(
                    f"{self.scenario.place}: before the first start nothing can be prepared."
                )
            return
        state.create(START_MS)
        writer, ids = state.open_writer(), CountedIds()
        try:
            batch = Batch(writer, ids, self._stage.clock.wall_ms)
            for command in scene.preparation:
                run_alone(batch, command)
        except Rejected as refused:
            raise ScenarioRefused(
                f"{self.scenario.place}: the preparation is refused: {refused}."
            ) from refused
        finally:
            writer.close()
        self._image, self._ids_drawn = laid_out(self._paths.database.parent), ids.drawn

    def live(self, choices: Choices, seed: int, failing: Failing | None = None) -> Lived:
        """Let a server live through the scenario from its start to its end.

        Args:
            choices: decide the order.
            seed: of the salts of SQLite's logs.
            failing: what the disk fails; None: nothing. Else no invariant is held.
        """
        self._stage.clock.now_ms = START_MS
        disk = DiskModel(self._image)
        life = self._life(disk, failing)
        life.history.add(self._image.get(self._paths.database.name), 0, "what was there")
        life.history.tell(0)
        lay_out(self._paths.database.parent, self._image)
        ids = CountedIds()
        ids.drawn = self._ids_drawn
        stage = self._stage if failing is None else replace(self._stage, declare=self._unchecked)
        with self._recording(life.log, seed, failing) as recording:
            state = DiskStateFiles(self._paths, recording.files, vfs=recording.vfs)
            with _outcome(life):
                serving = start(life, state, stage, ids, 1)
                play(life, serving, state, stage, ids=ids, choices=choices)
        life.ended_ms = self._stage.clock.now_ms
        return Lived(life, choices, seed, disk)

    def restart(
        self,
        disk: DiskModel,
        before: History,
        position: int,
        seed: int,
        failing: Failing | None = None,
    ) -> Life:
        """Start a server on a machine whose last server was killed, and end it in an orderly way.

        Args:
            disk: as it is now.
            before: history of the killed server's life, up to `position`.
        """
        content = disk.cached()
        lay_out(self._paths.database.parent, content)
        life = self._life(disk, failing)
        for version in before.versions[: before.newest(position) + 1]:
            life.history.versions.append(replace(version, begun=-1, told=None))
        life.history.versions[before.certain(position)].told = 0
        self._stage.clock.now_ms = START_MS + 3_600_000
        ids = CountedIds()
        ids.drawn = _RESTARTED_IDS
        with self._recording(life.log, seed, failing) as recording:
            state = DiskStateFiles(self._paths, recording.files, vfs=recording.vfs)
            with _outcome(life):
                end(life, start(life, state, self._stage, ids, 2).writer)
        life.ended_ms = self._stage.clock.now_ms
        return life

    def complaint(self, life: Life, left: Survivors, position: int, told: ToldOf) -> str | None:
        """Say what does not hold of what is left of a life that was over at a position.

        Whatever was lived or repeated since, it is looked at when that life had ended: what a
        start finds depends on its clock.
        """
        self._stage.clock.now_ms = life.ended_ms
        return self.judge.complaint(left, life.history, position, told)

    def _life(self, disk: DiskModel, failing: Failing | None) -> Life:
        if failing is None:
            return Life(disk.log())
        contents = [version.content for version in failing.reference.history.versions]
        faults = failing.faults
        foretold = Foretold(contents, lambda: bool(faults.fired))
        return Life(disk.log(faults), foretold=foretold)

    def _unchecked(self) -> Scene:
        scene = self._stage.declare()
        assert isinstance(scene, Scene), "the engine was given a scenario of scenes"
        scene.always_checks.clear()
        scene.final_checks.clear()
        return scene

    @contextmanager
    def _recording(self, log: DiskLog, seed: int, failing: Failing | None) -> Generator[Recording]:
        fault = None if failing is None else failing.faults.armed
        with recorded(
            log,
            "crash-disk",
            Chance(seed).stream("salts").randbytes,
            flushes_folder_of_old=False,
            asks_before_reads=fault is not None and "read" in CALLS[fault.failure],
        ) as recording:
            yield recording


@contextmanager
def _outcome(life: Life) -> Generator[None]:
    """Note what leaves the store instead of raising it."""
    try:
        yield
    except (ScenarioRefused, MarksLost):
        raise
    except (StoreError, ServerRefused) as refused:
        life.refusal = refused
    except Exception as escaped:  # noqa: BLE001 - judged, whatever it is
        life.escaped = escaped


@contextmanager
def ground_of(scenario: Scenario[Scene]) -> Generator[Ground]:
    """Prepare the machines of a scenario, for as long as it is explored.

    Raises:
        ScenarioRefused: the scenario cannot be played as it is written.
    """
    guard, clock = Guard(OwnCode.at(scenario.place)), SteppedClock()
    stage = stage_of(scenario, clock, guard)
    folder = memory_folder()
    recoverer = Recoverer("crash-recovered")
    try:
        with (
            tempfile.TemporaryDirectory(dir=folder) as lived,
            tempfile.TemporaryDirectory(dir=folder) as reopened,
            guard.installed(),
        ):
            reopening = Reopening(StatePaths(Path(reopened)), clock, guard.own)
            ground = Ground(scenario, stage, StatePaths(Path(lived)), Judge(recoverer, reopening))
            ground.prepare()
            yield ground
    finally:
        recoverer.close()
