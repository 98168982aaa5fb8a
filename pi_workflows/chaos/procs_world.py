"""What the actors of process orders share: one database file, an outside; and the checks."""

import shutil
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast, final

from pi_workflows.chaos.answers import arrive
from pi_workflows.chaos.live_state import refuse_live_state
from pi_workflows.chaos.procs_results import understood
from pi_workflows.chaos.scene import Acknowledged, Look, Scene, Sending, Sent
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from runtime.chaos.complaints import one_line
from runtime.chaos.own_code import OwnCode
from runtime.chaos.procs_order import CheckFailed
from runtime.simulation.chance import Chance, SeededIds
from runtime.simulation.clock import START_MS
from store.batch import Batch, run_alone
from store.chaos.renewal import Renewal
from store.creation import create_database
from store.opening import open_reader, open_writer
from store.state_dir import prepare_state_dir
from store.transaction import Reading
from store.verification import verify, violations

VERIFIED: Final = "state verify"
"""The name of the check that every order ends with."""


@final
class SharedDatabase:
    """A database file with what a scene has prepared, for a few hundred orders.

    Attributes:
        path: where it is.
    """

    def __init__(self, folder: Path, scene: Scene, own: OwnCode) -> None:
        """Create it in `folder`, which does not exist yet.

        Raises:
            ScenarioRefused: the folder is the live one, or something cannot be prepared.
        """
        refuse_live_state(folder)
        self.path: Final = folder / "state.sqlite"
        prepare_state_dir(folder)
        create_database(self.path, now=START_MS)
        writer = open_writer(self.path)
        ids = SeededIds(Chance(0).stream("ids of what is prepared"))
        batch = Batch(writer, ids, lambda: START_MS)
        try:
            for command in scene.preparation:
                run_alone(batch, command)
        except Exception as error:
            raise own.refusal_of_preparing(error) from error
        finally:
            writer.close()
        self._reader: Final = open_reader(self.path)
        self._renewal: Final = Renewal(self.path)

    def renew(self) -> None:
        """Put the rows back to what was prepared; no process is in a transaction."""
        self._renewal.renew()

    @contextmanager
    def look(self, now_ms: int) -> Generator[Reading]:
        """Look at one committed state."""
        with self._reader.snapshot() as connection:
            yield Reading(connection, now_ms)

    def end(self) -> None:
        """Verify the whole file, and remove it.

        Raises:
            CheckFailed: it is not what it must be.
        """
        try:
            with self.look(START_MS) as reading:
                report = verify(reading)
            if not report["ok"]:
                raise CheckFailed(f"at the end of a database: {report}", VERIFIED)
        finally:
            self.remove()

    def remove(self) -> None:
        """Close it and remove it."""
        self._reader.close()
        self._renewal.close()
        shutil.rmtree(self.path.parent)


@final
class SceneWorld:
    """A `runtime.chaos.procs_order.World`: the outside and the checks of one order."""

    def __init__(
        self, scene: Scene, database: SharedDatabase, ran: Counter[str], own: OwnCode
    ) -> None:
        """Begin with an outside where nothing has arrived; `ran` counts the checks."""
        self._own: Final = own
        self._scene: Final = scene
        self._database: Final = database
        self._ran: Final = ran
        self._acknowledged: Final[list[Acknowledged]] = []
        self._sent: Final[list[Sent]] = []

    def acknowledged(self, actor: str, facts: JsonObject) -> None:
        """Take note of a result that the store has answered; a refused command has none."""
        point = cast("str", facts["acknowledged"])
        self._acknowledged.append(Acknowledged(actor, point, understood(facts["result"])))

    def outside(self, actor: str, facts: JsonObject) -> JsonValue:
        """Let something arrive."""
        sending = Sending(
            cast("str", facts["target"]),
            cast("str", facts["key"]),
            cast("int | None", facts["generation"]),
        )
        return arrive(self._sent, actor, sending)

    def check(self, now_ms: int, *, is_final: bool) -> None:
        """Hold what is to hold always; at the end also the rest, and every rule of the state.

        Raises:
            CheckFailed: something does not hold.
            ScenarioRefused: a check fails by itself.
        """
        with self._database.look(now_ms) as reading:
            look = Look(reading, self._acknowledged, self._sent)
            self._hold(self._scene.always_checks, look)
            if not is_final:
                return
            self._hold(self._scene.final_checks, look)
            self._ran[VERIFIED] += 1
            found = violations(reading)
        if found:
            raise CheckFailed(f"{found[0].code}: {found[0].detail}", VERIFIED)

    def _hold(self, checks: Mapping[str, Callable[[Look], None]], look: Look) -> None:
        for name, check in checks.items():
            self._ran[name] += 1
            try:
                answer: object = check(look)
                self._own.require_plain(name, check, answer)
            except AssertionError as error:
                raise CheckFailed(f"{name}: {one_line(error)}", name) from error
            except Exception as error:
                raise self._own.refusal_of_check(name, error) from error
