"""What an invariant of a simulated world is shown: what people see, and what is real."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast, final

from pi_workflows.chaos.journal import Execution
from pi_workflows.chaos.outside import Outside
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from store import run_views, runs
from store.event_log import EventRow, every_event
from store.transaction import Reading


@dataclass(frozen=True, slots=True)
class SeenRun:
    """One run as its view shows it.

    Attributes:
        view: the whole `pi-workflows.run-view.v1`.
    """

    run_id: str
    view: JsonObject

    @property
    def workflow(self) -> str:
        """The name of its workflow."""
        return cast("str", cast("JsonObject", self.view["manifest"])["workflowName"])

    @property
    def status(self) -> str:
        """The one word that a person sees, such as `running`, `completed` or `ambiguous`."""
        return cast("str", cast("JsonObject", self.view["display"])["status"])

    @property
    def output(self) -> JsonValue:
        """Its final output; None also while it has none."""
        return self.view.get("finalOutput")


@final
class Seen:
    """One committed state of a world.

    Attributes:
        outside: where effects have landed.
        executions: every start of user code so far, whatever the database says about it.
        acknowledged: operation and receipt of every command that was answered, in order.
        now_ms: the wall clock, UTC epoch ms.
        reading: for queries of the store.
    """

    def __init__(
        self,
        reading: Reading,
        outside: Outside,
        executions: list[Execution],
        acknowledged: Callable[[], list[tuple[str, JsonObject]]],
    ) -> None:
        self.reading: Final = reading
        self.outside: Final = outside
        self.executions: Final = executions
        self._acknowledged: Final = acknowledged
        self.now_ms: Final = reading.now

    @property
    def acknowledged(self) -> list[tuple[str, JsonObject]]:
        """Operation and receipt of every command that was answered, in order."""
        return self._acknowledged()

    @property
    def runs(self) -> list[SeenRun]:
        """Every run whose start was answered, in the order of the answers.

        A run that is not there any more is left out; that it is lost is found by the engine.
        """
        ids = [
            cast("str", receipt["runId"])
            for operation, receipt in self.acknowledged
            if operation == "run.start"
        ]
        return [
            SeenRun(run_id, run_views.run_view(self.reading, run_id))
            for run_id in dict.fromkeys(ids)
            if runs.find(self.reading, run_id) is not None
        ]

    def events(self, event_type: str | None = None) -> list[EventRow]:
        """Return the accepted events, oldest first; of one type if named."""
        return [
            event for event in every_event(self.reading) if event_type in {None, event.event_type}
        ]
