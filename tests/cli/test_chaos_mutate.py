"""`chaos mutate` plants faults, says what was found, and calls a survivor by its name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pi_workflows.chaos.mutations import MUTATIONS
from pi_workflows.chaos.registry import SCENARIOS
from pi_workflows.cli import chaos_mutating

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke

OWN = """
from pi_workflows.chaos.scene import Look, Me, Scene, scenario


@scenario()
def careful(s: Scene) -> None:
    "Two workers want one job."
    job = s.resource("job")

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.write(claim, "job.done")

    s.faults(clock_jump=(31.0,))

    @s.finally_
    def one_generation_each(look: Look) -> None:
        done = [event.lease_generation for event in look.events(job, "job.done")]
        claimed = look.events(job, "lease.claimed")
        told = [known for known in look.acknowledged if known.point == "claim"]
        assert len(claimed) == len(told) and done == sorted(set(done))
        for one, next_one in zip(claimed, claimed[1:]):
            assert next_one.recorded_at >= one.recorded_at + 30_000
        for event in look.events(job, "job.done"):
            began = claimed[event.lease_generation - 1].recorded_at
            assert event.recorded_at < began + 30_000


@scenario()
def blind(s: Scene) -> None:
    "Two workers want one job, and nobody looks."
    job = s.resource("job")

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.write(claim, "job.done")

    s.faults(clock_jump=(31.0,))

    @s.finally_
    def is_there(look: Look) -> None:
        assert look.events(job) is not None
"""


def own_file() -> str:
    Path("jobs.py").write_text(OWN, encoding="utf-8")
    return "jobs.py"


def test_mutation_is_drawn_kept_and_comes_back_only_with_its_fault(invoke: Invoke) -> None:
    result = invoke("chaos", "mutate", "expiry_ignored", "--failures", "found")
    assert result.exit_code == 0, result.output
    assert MUTATIONS["expiry_ignored"].breaks in result.stdout
    assert "which has expired" in result.stdout
    assert "✓ expiry_ignored: breaks P4, found by lapsed_owner_can_only_release" in result.stdout
    assert "1 of 1 mutations found: 100%" in result.stdout
    file = Path("found/mutation-expiry_ignored.json")
    replayed = invoke("chaos", "replay", str(file))
    assert replayed.exit_code == 1
    assert "with the mutation expiry_ignored in place" in replayed.stderr
    assert invoke("chaos", "shrink", str(file)).exit_code == 1
    assert "it still breaks" in invoke("chaos", "explain", str(file)).stdout
    document = json.loads(file.read_text(encoding="utf-8"))
    del document["mutation"]
    file.write_text(json.dumps(document), encoding="utf-8")
    assert invoke("chaos", "replay", str(file)).exit_code == 0


def test_document_has_the_score_and_an_entry_per_mutation(invoke: Invoke) -> None:
    result = invoke("chaos", "mutate", "generation_reset", "revision_not_checked", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["score"], document["survivors"], document["verdict"]) == (1.0, [], "held")
    assert [each["name"] for each in document["mutations"]] == [
        "generation_reset",
        "revision_not_checked",
    ]
    assert all(each["found"] and each["complaint"] for each in document["mutations"])
    assert [each["broke"] for each in document["mutations"]] == ["P3", "P2"]


def test_fresh_hunt_that_takes_too_long_is_no_violation_and_no_success(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunt = ("chaos", "mutate", "generation_reset", "--fresh", "5")
    assert invoke(*hunt).exit_code == 0
    monkeypatch.setattr(chaos_mutating, "FRESH_MEDIAN_MAX", 0.5)
    result = invoke(*hunt)
    assert result.exit_code == 3
    assert "✗ the median is above 0.5" in result.stdout
    document = json.loads(invoke(*hunt, "--json").stdout)
    assert (document["verdict"], document["exitCode"]) == ("budget ended", 3)
    assert invoke(*hunt[:3]).exit_code == 0


def test_mutation_that_breaks_another_promise_has_survived_and_says_so(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = replace(MUTATIONS["revision_skipped"], promise="P5")
    monkeypatch.setitem(MUTATIONS, "revision_skipped", missed)
    result = invoke("chaos", "mutate", "revision_skipped")
    assert result.exit_code == 1
    assert "it was to break P5, and broke P2" in result.stdout


def test_scenario_of_ones_own_that_looks_notices_the_faults_that_matter_to_it(
    invoke: Invoke,
) -> None:
    result = invoke("chaos", "mutate", f"{own_file()}::careful")
    assert result.exit_code == 0, result.output
    assert "- sent_before_the_commit: makes no difference" in result.stdout
    assert "4 of 4 mutations found" in result.stdout


def test_survivor_is_named_and_is_a_violation(invoke: Invoke) -> None:
    result = invoke("chaos", "mutate", f"{own_file()}::blind", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["score"] == 0
    assert document["survivors"] == [
        "no_claim_check",
        "expiry_ignored",
        "live_claim_taken",
        "answered_and_lost",
    ]


def test_list_shows_what_each_mutation_breaks_and_tries_none(invoke: Invoke) -> None:
    text = invoke("chaos", "mutate", "--list").stdout
    lines = invoke("chaos", "mutate", "--list", "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == list(MUTATIONS)
    for mutation in MUTATIONS.values():
        assert mutation.breaks in text


def test_no_mutation_is_called_like_a_scenario() -> None:
    assert not set(MUTATIONS) & set(SCENARIOS)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["gone"], "gone is no mutation"),
        (["none.py::a"], "there is no file none.py"),
        (["one_winner", "--fresh", "7"], "--fresh is for the catalogue"),
        (["one_run"], "no mutation is general enough for one_run by the engine sim"),
        (["no_claim_check", "--list"], "leave out NAME"),
        (["--fresh", "-1"], "-1"),
        (["--jobs", "0"], "0"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_usage_error(
    invoke: Invoke, arguments: list[str], complaint: str
) -> None:
    result = invoke("chaos", "mutate", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_replay_file_that_names_no_mutation_of_this_version_is_refused(invoke: Invoke) -> None:
    invoke("chaos", "mutate", "generation_reset", "--failures", ".")
    file = Path("mutation-generation_reset.json")
    text = file.read_text(encoding="utf-8").replace('"generation_reset"', '"gone"')
    file.write_text(text, encoding="utf-8")
    result = invoke("chaos", "replay", str(file))
    assert result.exit_code == 2
    assert 'there is no mutation "gone"' in result.stderr
