"""Every scenario that ships says what it is for, and has checks that run."""

import pytest

from pi_workflows.chaos.registry import SCENARIOS
from pi_workflows.chaos.scene import Scene

OF_THE_STORE = [name for name, shipped in SCENARIOS.items() if "sim" not in shipped.engines]


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_says_in_a_line_what_happens_and_names_its_promises(name: str) -> None:
    shipped = SCENARIOS[name]
    assert shipped.summary.endswith(".")
    assert shipped.promises
    assert set(shipped.promises) <= {f"P{number}" for number in range(1, 13)}


@pytest.mark.parametrize("name", OF_THE_STORE)
def test_scenario_has_actors_and_checks_and_names_that_explorations_do_not_share(
    name: str,
) -> None:
    first, second = Scene(scope="-1"), Scene(scope="-2")
    for scene in (first, second):
        SCENARIOS[name].body(scene)
        assert scene.actors
        assert scene.always_checks or scene.final_checks
    assert first.name("job") != second.name("job")
