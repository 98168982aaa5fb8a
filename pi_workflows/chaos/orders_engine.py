"""The engine `orders`: the real store in one process, and full control of who goes next."""

import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

from pi_workflows.chaos.inline_store import CountedIds
from pi_workflows.chaos.scene import Command, Scene
from pi_workflows.chaos.scene_stage import declared, memory_folder, stage_of
from pi_workflows.chaos.store_subject import StoreSubject
from runtime.chaos.engine import Repeated, Wanted
from runtime.chaos.explorer import Explorer, Playing
from runtime.chaos.guard import Guard
from runtime.chaos.outcome import ScenarioRefused, Tally
from runtime.chaos.own_code import OwnCode
from runtime.chaos.scenario import Scenario
from runtime.chaos.subject import SteppedClock, Subject
from store.batch import Batch, run_alone
from store.chaos.branching import BranchingWriter
from store.creation import create_database
from store.database import Writer
from store.errors import Rejected
from store.opening import open_writer


@final
class OrdersEngine:
    """Explores the orders of a `Scenario[Scene]`; see `runtime.chaos.engine.Engine`.

    Its kinds of faults are `runtime.chaos.moves.CARRIED_OUT`; a budget for another kind has no
    effect here, and the report names it as one that was not carried out.
    """

    name: Final = "orders"

    def explore(self, scenario: Scenario[Scene], wanted: Wanted) -> list[Tally]:
        """Explore, and return one tally of orders; see `Engine.explore`."""
        with playing(scenario) as stage:
            return [Explorer(stage, wanted).explore(is_all=wanted.is_all or scenario.core)]

    def repeat(
        self,
        scenario: Scenario[Scene],
        choices: Mapping[str, str],
        seed: int | None,  # noqa: ARG002 - choices alone decide here
        until: int | None = None,
    ) -> Repeated:
        """Play one order from its choices; see `Engine.repeat`."""
        with playing(scenario) as stage:
            return Explorer(stage, Wanted()).repeat(choices, until)


@contextmanager
def playing(scenario: Scenario[Scene]) -> Generator[Playing]:
    """Prepare a database for a scenario, for as long as it is explored.

    Raises:
        ScenarioRefused: it cannot be declared, or what it prepares is refused.
    """
    guard, clock, now_s = Guard(OwnCode.at(scenario.place)), SteppedClock(), time.monotonic
    stage = stage_of(scenario, clock, guard)
    with (
        tempfile.TemporaryDirectory(dir=memory_folder()) as folder,
        guard.installed(),
    ):
        ground = _Ground(Path(folder), clock)
        ground.prepare(declared(scenario).preparation, scenario.place)
        with ground.shared() as shared:
            yield Playing(
                scenario.name,
                OrdersEngine.name,
                scenario.promises,
                stage,
                shared,
                ground.fresh,
                now_s,
            )


@final
class _Ground:
    """The databases that one scenario is played on; all begin alike."""

    def __init__(self, folder: Path, clock: SteppedClock) -> None:
        self._folder: Final = folder
        self._clock: Final = clock
        self._ids_drawn = 0
        self._image = b""
        self._made = 0

    def prepare(self, commands: Sequence[Command[object]], place: str) -> None:
        """Create the database and carry out the preparation, once for all orders.

        Raises:
            ScenarioRefused: a command of the preparation is refused.
        """
        database = self._folder / "prepared.sqlite"
        create_database(database, now=self._clock.now_ms)
        writer, ids = open_writer(database), CountedIds()
        try:
            batch = Batch(writer, ids, self._clock.wall_ms)
            for command in commands:
                run_alone(batch, command)
            self._image = writer.connection.serialize("main")
            self._ids_drawn = ids.drawn
        except Rejected as refused:
            raise ScenarioRefused(f"{place}: the preparation is refused: {refused}.") from refused
        except Exception as error:
            raise OwnCode.at(place).refusal_of_preparing(error) from error
        finally:
            writer.close()

    @contextmanager
    def shared(self) -> Generator[Subject]:
        """Open a copy that can go back to marks."""
        database = self._copy()
        writer = BranchingWriter(open_writer(database).connection)
        try:
            writer.take_root()
            yield self._subject(writer)
            writer.cut_off()
        finally:
            writer.close()

    @contextmanager
    def fresh(self) -> Generator[Subject]:
        """Open a copy of its own for one order; its batches are real transactions."""
        database = self._copy()
        writer = open_writer(database)
        try:
            yield self._subject(writer)
        finally:
            writer.close()
            database.unlink()

    def _subject(self, writer: Writer) -> StoreSubject:
        ids = CountedIds()
        ids.drawn = self._ids_drawn
        return StoreSubject(writer, self._clock, ids)

    def _copy(self) -> Path:
        self._made += 1
        database = self._folder / f"copy-{self._made}.sqlite"
        database.touch(mode=0o600)
        database.write_bytes(self._image)
        return database
