"""An observed effect was under way when its runner ended: the next one looks before it sends."""

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import OBSERVED, OUTPUT, STEPS, three


@pytest.mark.parametrize("killed", ["runner", "server"])
def test_effect_that_a_dead_runner_has_applied_is_found_and_not_sent_again(
    home: Home, killed: str
) -> None:
    """Case: A53."""
    server = home.servers.start()
    run_id = home.run(three(OBSERVED))
    home.meetings.arrive("second").go()
    node = home.meetings.arrive("sent")
    if killed == "runner":
        node.runner.kill()
    else:
        server.kill()
        node.await_end()
        home.servers.start()
    home.assert_completed(run_id, STEPS, OUTPUT)
    began = ["first", "second began", "second ended", "sent began"]
    assert home.notes() == [*began, "looked after try 1", "third"]
    assert _attempts(home, run_id) == [("applied", 1, "interrupted")]


def test_effect_that_a_dead_runner_has_not_applied_is_sent_as_the_next_try(home: Home) -> None:
    home.servers.start()
    run_id = home.run(three(OBSERVED))
    home.meetings.arrive("second").runner.kill()
    again = home.meetings.arrive("second")
    assert (again.facts["attempt"], again.facts["visit"]) == (2, 1)
    again.go()
    home.meetings.arrive("sent").go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes()[:3] == ["first", "second began", "looked after try 1"]
    assert _attempts(home, run_id) == [("applied", 1, "interrupted"), ("applied", 2, "applied")]


def _attempts(home: Home, run_id: str) -> list[tuple[object, ...]]:
    return home.database.rows(
        "SELECT e.status, a.attempt_number, a.outcome FROM effect_attempts AS a"
        " JOIN effects AS e USING (effect_id) JOIN runs AS r"
        " ON r.resource_id = e.source_resource_id WHERE r.run_id = ?"
        " AND e.effect_type = 'second.done' ORDER BY a.attempt_number",
        run_id,
    )
