"""Every planted fault fits the code as it is, and the harness finds them."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pi_workflows.chaos import mutant
from pi_workflows.chaos.abandonment import ABANDONED
from pi_workflows.chaos.mutant import try_out
from pi_workflows.chaos.mutating import PROGRAM, Judged, MutationResult, mutate
from pi_workflows.chaos.mutation import Mutation
from pi_workflows.chaos.mutations import (
    MUTATIONS,
    MutationUnknown,
    known_mutation,
    planted_mutation,
    planted_names,
)
from pi_workflows.chaos.registry import SCENARIOS, engine_names
from pi_workflows.chaos.trials import Told, Trial
from runtime.chaos.engine import Repeated, Wanted
from runtime.chaos.outcome import Finding, Tally, Verdict
from runtime.chaos.planting import Rewritten, planted
from runtime.chaos.scenario import Scenario
from store import authority, leases

WITHOUT_THE_RULE = {
    "checkpoints are explicit, and readers only read": "reader_moves_the_log",
    "a failed COMMIT has an unknown outcome": "failed_commit_is_refused",
    "the log of an unclean stop is settled before it is read": "log_not_settled",
    "the log of an unclean stop is copied aside": "log_settled_in_place",
    "every batch is fenced by the epoch": "no_epoch_fence",
    "one server, and a live one is left alone": "silent_server_ended_at_once",
}
"""What takes a rule away."""


def known_trial(name: str) -> Trial:
    caught = MUTATIONS[name].caught
    return Trial(
        mutation=name,
        ref=caught.scenario,
        engine=caught.engine,
        promise=MUTATIONS[name].promise,
        seeds=caught.seeds,
        choices=caught.choices,
    )


def test_catalogue_is_large_enough_and_names_no_mutation_twice() -> None:
    assert len(MUTATIONS) >= 30
    changes = [mutation.changes for mutation in MUTATIONS.values()]
    assert len(set(changes)) == len(changes)


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_fits_the_code_and_leaves_nothing_behind(name: str) -> None:
    """One that no longer finds what it changes is refused, so none of them rots unseen."""
    before = authority.check_claim.__code__, leases.UPDATE_CLAIMED
    with planted_mutation(name):
        assert planted_names() == (name,)
    assert planted_names() == ()
    assert (authority.check_claim.__code__, leases.UPDATE_CLAIMED) == before


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_says_what_it_breaks_and_is_caught_where_a_scenario_looks(name: str) -> None:
    mutation = MUTATIONS[name]
    assert mutation.breaks.endswith(".")
    assert mutation.promise in {f"P{number}" for number in range(1, 13)}
    caught = SCENARIOS[mutation.caught.scenario]
    assert mutation.caught.engine in caught.engines
    assert mutation.caught.engine in engine_names()
    assert set(mutation.general) <= set(engine_names())


@pytest.mark.parametrize("name", WITHOUT_THE_RULE.values(), ids=WITHOUT_THE_RULE)
def test_scenario_fails_without_the_rule(name: str) -> None:
    """Case: D14."""
    told = try_out(known_trial(name))
    assert told.is_caught, told.error


def test_unknown_mutation_is_refused_with_what_there_is() -> None:
    with pytest.raises(MutationUnknown, match=r"no mutation \"gone\"; there are: no_claim_check"):
        known_mutation("gone")
    with pytest.raises(MutationUnknown):
        mutate(["gone"], 1, lambda _: None)


@pytest.mark.parametrize(
    "name",
    ["no_claim_check", "renewal_shortens", "receipt_not_stored", "manual_effect_tried_again"],
)
def test_mutation_is_caught_and_the_same_exploration_holds_without_it(name: str) -> None:
    told = try_out(known_trial(name))
    assert told.is_caught, told.error
    assert told.finding is not None
    assert told.finding.complaint


def test_what_breaks_another_promise_is_no_catch_and_is_told() -> None:
    trial = Trial(
        mutation="receipt_not_stored",
        ref="asked_again",
        engine="orders",
        promise="P4",
        seeds=range(30),
    )
    told = try_out(trial)
    assert not told.is_caught
    assert (told.finding, told.error, told.explored) == (None, None, 30)
    assert told.beside is not None
    assert told.beside.promise == "P6"


def test_hunt_goes_on_behind_the_break_of_another_promise() -> None:
    """A scenario that names no promise has none of its own: there anything counts."""
    trial = known_trial("expiry_off_by_one")
    anything = try_out(replace(trial, promise=None))
    assert anything.finding is not None
    assert anything.finding.promise == "P4"
    told = try_out(replace(trial, promise="P3"))
    assert told.finding is not None
    assert told.finding.promise == "P3"
    assert told.explored > anything.explored


class FindsThree:
    """An engine to which a seed is many explorations: it breaks P2, P2 and then P6."""

    def explore(self, scenario: Scenario[Any], wanted: Wanted) -> list[Tally]:
        promises = ["P2", "P2", "P6"][: wanted.findings_max]
        found = [Finding(scenario.name, "crash", it, it, {}, 1, (), "ab") for it in promises]
        return [Tally(scenario.name, "crash", "I/O errors", explored=len(found), findings=found)]

    def repeat(self, *_: object) -> Repeated:
        return Repeated(None, (), "ab", frozenset())


def test_hunt_in_one_large_exploration_looks_at_its_later_findings_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mutant, "engine", lambda _: FindsThree())
    trial = replace(known_trial("failed_commit_is_refused"), choices={}, seeds=range(2))
    told = try_out(trial)
    assert told.finding is not None
    assert (told.finding.promise, told.explored) == ("P6", 3)
    missed = try_out(replace(trial, promise="P9"))
    assert missed.finding is None
    assert missed.beside is not None


@pytest.mark.parametrize(
    ("promise", "found", "counts"),
    [("P3", "P3", True), ("P3", "P2, P3", True), ("P3", "P4", False), (None, "a check", True)],
)
def test_finding_counts_if_it_names_the_promise(
    promise: str | None, found: str, *, counts: bool
) -> None:
    trial = Trial(mutation="a", ref="b", engine="sim", promise=promise)
    assert trial.counts(Finding("b", "sim", found, "twice", {}, 4, (), "ab")) is counts


def test_exploration_that_the_fault_does_not_touch_catches_nothing() -> None:
    trial = Trial(
        mutation="receipt_not_stored", ref="clock_steps", engine="orders", seeds=range(20)
    )
    told = try_out(trial)
    assert (told.finding, told.error, told.explored) == (None, None, 20)
    assert not told.is_caught


def test_what_breaks_without_the_fault_too_is_no_catch() -> None:
    """A harness that always cries wolf would have the best score of all."""
    broken = Rewritten("store.authority:check_claim", "not held.live(now)", "False")
    trial = Trial(
        mutation="renewal_shortens",
        ref="lapsed_owner_can_only_release",
        engine="orders",
        seeds=range(20),
    )
    with planted([broken]):
        told = try_out(trial)
    assert not told.is_caught
    assert told.error is not None
    assert told.error.startswith("it breaks without the fault too: ")


def test_trial_that_cannot_be_made_says_why() -> None:
    told = try_out(Trial(mutation="no_claim_check", ref="gone", engine="orders"))
    assert told.error is not None
    assert 'no scenario "gone"' in told.error


def test_trial_and_what_came_of_it_travel_as_json() -> None:
    trial = Trial(
        mutation="a",
        ref="b",
        engine="sim",
        promise="P3",
        seeds=range(3, 9),
        choices={"x#1": "y"},
    )
    assert Trial.of_json(trial.to_json()) == trial
    finding = Finding("b", "sim", "P3", "twice", {"x#1": "y"}, 4, (), "ab")
    for told in (Told(7, 0.5, finding), Told(0, 1.0, error="no"), Told(7, 1.0, beside=finding)):
        assert Told.of_json(told.to_json()) == told


def judged(mutation: Mutation, *, caught: bool, explored: int) -> Judged:
    finding = Finding("s", "orders", "P3", "twice", {}, None, (), "") if caught else None
    return Judged(mutation, known_trial(mutation.name), Told(explored, 0.1, finding))


def test_score_is_the_share_that_was_caught_and_a_survivor_is_a_violation() -> None:
    first, second, third, *_ = MUTATIONS.values()
    all_caught = MutationResult(
        (judged(first, caught=True, explored=1), judged(second, caught=True, explored=9))
    )
    assert (all_caught.score, all_caught.median) == (1.0, 5.0)
    assert all_caught.verdict is Verdict.HELD
    blind = MutationResult((*all_caught.judged, judged(third, caught=False, explored=400)))
    assert [each.mutation for each in blind.survivors] == [third]
    assert blind.score == pytest.approx(2 / 3)
    assert blind.verdict is Verdict.VIOLATED
    assert MutationResult(()).verdict is Verdict.VIOLATED


def test_hunt_that_takes_longer_than_promised_ends_as_a_budget_that_was_too_small() -> None:
    first, second, *_ = MUTATIONS.values()
    found = (judged(first, caught=True, explored=1), judged(second, caught=True, explored=9))
    assert MutationResult(found, 5.0).verdict is Verdict.HELD
    assert MutationResult(found, 4.9).verdict is Verdict.BUDGET_ENDED
    survived = (*found, judged(second, caught=False, explored=400))
    assert MutationResult(survived, 4.9).verdict is Verdict.VIOLATED


def test_mutations_are_tried_in_processes_of_their_own() -> None:
    told: list[str] = []
    result = mutate(
        ["expiry_ignored", "generation_reset"], 2, lambda each: told.append(each.mutation.name)
    )
    assert sorted(told) == ["expiry_ignored", "generation_reset"]
    assert result.score == 1.0, [each.told for each in result.survivors]
    assert [each.mutation.name for each in result.judged] == ["expiry_ignored", "generation_reset"]


def test_process_of_a_trial_ends_with_whoever_started_it_even_while_it_works(
    tmp_path: Path,
) -> None:
    file = tmp_path / "endless.py"
    file.write_text("import sys\nprint('busy', file=sys.stderr)\nwhile True:\n    pass\n")
    trial = Trial(mutation="expiry_ignored", ref=f"{file}::any", engine="orders")
    command = [sys.executable, "-m", PROGRAM, json.dumps(trial.to_json())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert process.stderr.readline() == b"busy\n"
        process.stdin.close()
        assert process.wait(60) == ABANDONED
