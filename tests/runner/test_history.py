"""What the loop remembers: of all steps as of the newest step of each node."""

from typing import TYPE_CHECKING, cast

from pi_workflows.runner.history import History, parse_counts, parse_step
from tests.runner.repairing import parent

if TYPE_CHECKING:
    from tests.runner.conftest import Player, ScriptedServer


def test_newest_steps_tell_the_same_as_all_steps_wherever_a_run_stands(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """In the second invocation of a mount too, and between two of them.

    Case: B24.
    """
    playing = player(parent(rounds=3), server)
    playing.play()
    recorded = list(server.steps)
    server.page = len(playing.definition.nodes)
    every = History(playing.definition)
    for count in range(1, len(recorded) + 1):
        every, newest = History(playing.definition), History(playing.definition)
        for step in recorded[:count]:
            every.record(parse_step(step, step["output"]))
        server.steps = recorded[:count]
        for step in sorted(server.newest(), key=lambda step: cast("int", step["stepIndex"])):
            output = step["output"] if newest.sees(cast("str", step["nodeId"])) else None
            newest.recall(parse_step(step, output), parse_counts(step))
        assert vars(newest) == vars(every), count
    assert every.next_visit("fix") == every.scopes[""].next_visit("fix") == 4
