"""Runners are forked by a template; what becomes of it costs no run and leaves nothing behind."""

import signal

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.meetings import Arrival
from multiproc_tests.harness.processes import ExactProcess, started_under
from multiproc_tests.harness.workflows import COMPUTING, OUTPUT, STEPS, three
from runtime.registry import read_registry


def test_run_survives_the_death_of_the_template_and_the_next_one_has_a_new_one(
    home: Home,
) -> None:
    home.servers.start()
    first_id = home.run(three(COMPUTING))
    first = home.meetings.arrive("second")
    template = _template(home)
    assert _parent(first) == template.pid
    template.kill()
    other = three(COMPUTING).replace('meet("second"', 'meet("other"')
    second_id = home.run_file(home.write(other, "other"))
    second = home.meetings.arrive("other")
    assert _parent(second) == _template(home).pid
    assert _parent(second) != template.pid
    second.go()
    home.await_status(second_id, "completed")
    first.go()
    home.assert_completed(first_id, STEPS, OUTPUT)


def test_template_left_by_a_killed_server_is_ended_with_what_it_forked(home: Home) -> None:
    """It stands still, so it cannot see that its server is gone."""
    server = home.servers.start()
    run_id = home.run(three(COMPUTING))
    before = home.meetings.arrive("second")
    template = _template(home)
    template.send(signal.SIGSTOP)
    server.kill()
    home.servers.start()
    after = home.meetings.arrive("second")
    assert not template.is_alive
    before.assert_gone()
    assert _parent(after) == _template(home).pid
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)


def test_template_ends_with_its_server_though_nobody_ends_it(home: Home) -> None:
    server = home.servers.start()
    template = _template(home)
    server.kill()
    template.await_end()
    assert started_under(home.folder) == {}
    home.servers.start()


def test_runners_start_by_exec_when_the_environment_says_so(home: Home) -> None:
    server = home.servers.start(PI_WORKFLOWS_RUNNER_START="exec")
    run_id = home.run(three(COMPUTING))
    arrival = home.meetings.arrive("second")
    assert _parent(arrival) == server.pid
    arrival.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert read_registry(home.paths.registry) == ()


def _template(home: Home) -> ExactProcess:
    """Return the template that the server has registered last."""
    registered = read_registry(home.paths.registry)
    *_, template = [child for child in registered if child.marker.startswith("template-")]
    return home.watch(template.identity.pid)


def _parent(arrival: Arrival) -> int:
    """Return the parent of a runner."""
    return int(arrival.facts["parent"])
