"""A runner died inside a manual effect; an operator lists it, says what he found, the run ends."""

import json

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import ACTING, OUTPUT, STEPS, three

REASON = ("--reason", "the log of the target says so")


@pytest.fixture
def stranded(home: Home) -> tuple[str, str]:
    """A run that waits for an operator, and its effect as `effects` lists it."""
    home.servers.start()
    run_id = home.run(three(ACTING, recovery="manual"))
    node = home.meetings.arrive("second")
    node.runner.kill()
    home.await_status(run_id, "ambiguous")
    (effect,) = [json.loads(line) for line in home.command("effects", "--json").splitlines()]
    assert (effect["effectId"], effect["runId"]) == (node.facts["effectId"], run_id)
    facts = [effect[name] for name in ("nodeId", "effectType", "recovery", "status", "attempts")]
    assert facts == ["second", "second.done", "manual", "ambiguous", 1]
    return run_id, effect["effectId"]


def resolve(home: Home, effect: str, *verb: str) -> dict[str, object]:
    printed = home.command("effects", "resolve", effect, *verb, *REASON, "--json")
    receipt: dict[str, object] = json.loads(printed)
    return receipt


def test_effect_said_to_be_applied_is_adopted_with_its_output_and_not_sent(
    home: Home, stranded: tuple[str, str]
) -> None:
    run_id, effect = stranded
    receipt = resolve(home, effect, "--applied", "--output", '"second"')
    assert (receipt["status"], receipt["goesOn"]) == ("applied", True)
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == ["first", "second began", "third"]
    assert home.command("effects", run_id) == ""


def test_effect_said_to_be_rejected_fails_its_node(home: Home, stranded: tuple[str, str]) -> None:
    run_id, effect = stranded
    resolve(home, effect, "--rejected")
    home.await_status(run_id, "failed")
    assert "the log of the target says so" in home.show(run_id)["error"]
    assert home.notes() == ["first", "second began"]
    home.assert_verified()


def test_effect_that_is_to_be_retried_is_sent_again_under_the_next_number(
    home: Home, stranded: tuple[str, str]
) -> None:
    run_id, effect = stranded
    resolve(home, effect, "--retry")
    again = home.meetings.arrive("second")
    assert (again.facts["attempt"], again.facts["effectId"]) == (2, effect)
    again.go()
    home.assert_completed(run_id, STEPS, OUTPUT)


def test_output_that_the_node_does_not_declare_fails_the_node_and_says_so(
    home: Home, stranded: tuple[str, str]
) -> None:
    run_id, effect = stranded
    resolve(home, effect, "--applied", "--output", "[1]")
    home.await_status(run_id, "failed")
    error = home.show(run_id)["error"]
    assert "EFFECT_OUTPUT_REFUSED" in error
    assert ": output: Input should be" in error
    home.assert_verified()


def test_effect_of_a_cancelled_run_is_settled_and_never_retried(
    home: Home, stranded: tuple[str, str]
) -> None:
    run_id, effect = stranded
    home.command("cancel", run_id)
    home.command("effects", "resolve", effect, "--retry", *REASON, exit_code=1)
    receipt = resolve(home, effect, "--rejected")
    assert (receipt["runStatus"], receipt["goesOn"]) == ("cancelled", False)
    assert home.show(run_id)["effects"] == []
    home.assert_verified()
