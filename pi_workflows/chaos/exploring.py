"""One process of an exploration: `python -m pi_workflows.chaos.exploring`.

Takes tasks from standard input, one JSON object a line, and answers on standard output, one JSON
object a line. What the scenario or a library prints goes to standard error instead. Ends with its
standard input.
"""

import json
import queue
import signal
import time
import traceback
from typing import Final, TextIO, final

from pi_workflows.chaos.abandonment import answers_alone, end_with_input, until_abandoned
from pi_workflows.chaos.discovery import ScenarioUnknown, find, hidden_module
from pi_workflows.chaos.registry import engine
from pi_workflows.chaos.repeating import make_small
from pi_workflows.chaos.tasks import Exploration, Shrinking, Task, task_of
from pi_workflows.protocol.canonical import JsonObject
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.tally_json import finding_json, tally_json

_TELL_S: Final = 0.2


@final
class _Answers:
    """Writes answers; counts that come often are gathered for a moment."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: Final = stream
        self._untold: Final[dict[str, int]] = {}
        self._told_at = time.monotonic()

    def write(self, answer: JsonObject) -> None:
        """Write one answer."""
        self._stream.write(json.dumps(answer) + "\n")
        self._stream.flush()

    def tell(self, unit: str, count: int) -> None:
        """Count, and write what was counted if it is time."""
        self._untold[unit] = self._untold.get(unit, 0) + count
        now = time.monotonic()
        if now - self._told_at < _TELL_S:
            return
        self._told_at = now
        for each, counted in self._untold.items():
            self.write({"told": each, "count": counted})
        self._untold.clear()


def main() -> None:
    """Answer tasks until there are no more."""
    answers = _Answers(answers_alone())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
    end_with_input(tasks.put)
    while True:
        task = task_of(json.loads(tasks.get()), answers.tell)
        try:
            _carry_out(task, answers)
        except (ScenarioUnknown, ScenarioRefused) as refused:
            answers.write({"refused": str(refused)})
        except Exception as error:  # noqa: BLE001 - it is told where it can be shown
            if (hidden := hidden_module(error)) is not None:
                answers.write({"refused": str(hidden)})
                continue
            detail = "".join(traceback.format_exception(error))
            answers.write({"failed": f"{type(error).__name__}: {error}", "detail": detail})


def _carry_out(task: Task, answers: _Answers) -> None:
    scenario = find(task.ref)
    match task:
        case Exploration():
            tallies = engine(task.engine).explore(scenario, task.wanted)
            answers.write({"tallies": [tally_json(tally) for tally in tallies]})
        case Shrinking():
            made = make_small(
                engine(task.engine), scenario, task.finding, task.seconds_max, time.monotonic
            )
            answers.write(
                {
                    "finding": finding_json(made.finding),
                    "comesBack": made.comes_back,
                    "runs": made.runs,
                    "isMinimal": made.is_minimal,
                }
            )


if __name__ == "__main__":
    until_abandoned(main)
