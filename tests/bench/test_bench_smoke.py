"""The benchmark runs from end to end in tiny sizes and prints the lines that people look for."""

import tempfile
from pathlib import Path

import pytest

from bench import __main__ as program
from bench.figures import Section, document, percentile
from bench.footprint import FootprintPlan
from bench.hooks import HookPlan
from bench.long_run import LongRunPlan
from bench.many_updates import UpdatesPlan
from bench.restart import RestartPlan
from bench.simulation import SimulationPlan
from bench.step_profile import ProfilePlan
from bench.store_commands import StorePlan
from bench.workflow_steps import StepPlan
from pi_workflows.protocol.canonical import parse_json

TINY_STORE = StorePlan(rounds=1, singles=2, groups=1, switch_interval_s=0.005)
TINY_LONG_RUN = LongRunPlan(steps=40, part=10, rounds=1)
TINY_PROFILE = ProfilePlan(rounds=1, steps=1, messages=2)
TINY_RESTART = RestartPlan(killed=(1,), left=(2,), rounds=1)
TINY_FOOTPRINT = FootprintPlan(idle_s=0.1, runs=1)
TINY_STEPS = StepPlan(steps=2, alone=1, watched=1, at_once=2, rounds=1)


def test_program_prints_every_figure_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real file, a real server and real children; a table for people, a file for scripts."""
    monkeypatch.setattr(program, "STORE_PLAN", TINY_STORE)
    monkeypatch.setattr(program, "LONG_RUN_PLAN", TINY_LONG_RUN)
    monkeypatch.setattr(program, "UPDATES_PLAN", UpdatesPlan(updates=3, rounds=1, reads=1))
    monkeypatch.setattr(program, "STEP_PLAN", TINY_STEPS)
    monkeypatch.setattr(program, "HOOK_PLAN", HookPlan(rounds=1, calls=1))
    monkeypatch.setattr(program, "SIMULATION_PLAN", SimulationPlan(seeds=1, scenarios_max=2))
    monkeypatch.setattr(program, "RESTART_PLAN", TINY_RESTART)
    monkeypatch.setattr(program, "FOOTPRINT_PLAN", TINY_FOOTPRINT)
    figures = tmp_path / "figures.json"
    with tempfile.TemporaryDirectory(prefix="b-") as short:  # A socket's path is limited.
        monkeypatch.setattr(tempfile, "tempdir", short)
        assert program.main(["--json", str(figures)]) == 0
        assert list(Path(short).iterdir()) == []
    printed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    written = parse_json(figures.read_bytes())
    assert isinstance(written, dict)
    assert {
        "fsync_p50",
        "store_64_callers_vs_bare_group",
        "store_1_caller_vs_bare_single",
        "store_64_callers_busy_vs_bare_group",
        "store_actor_16_busy",
        "long_run_of_40_last_vs_first",
        "list_with_vs_without_updates",
        "view_with_vs_without_updates",
        "long_run_last_steps_written",
        "long_run_resumed_after_40",
        "run_2_step_alone",
        "run_2_step_2_at_once_stepping",
        "run_asked_to_first_node_p50",
        "hook_inert",
        "simulation_scenarios",
        "runner_import",
        "template_start_to_ready",
        "restart_1_runs_to_first",
        "restart_2_runs_to_2_resumed",
        "idle_cpu",
        "run_memory",
    } <= printed & written.keys()


def test_profile_names_the_stages_and_the_statements_of_a_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "PROFILE_PLAN", TINY_PROFILE)
    assert program.main(["--profile"]) == 0
    printed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert {
        "profile_socket_in_and_out",
        "profile_frame_parsed",
        "profile_message_validated",
        "profile_command",
        "profile_commit_of_64",
        "profile_store_with_64_callers",
        "profile_sql",
        "profile_sql_insert_events",
    } <= printed


def test_figure_shows_its_middle_and_its_range() -> None:
    section = Section("Store", "note")
    section.add("commands", "commands/s", [1000.0, 3000.0, 2000.0])
    section.add_ratio("ratio", [1.0, 2.0], [2.0, 8.0])
    _, _, commands, ratio = section.text().splitlines()
    assert commands.split() == ["commands", "2,000", "commands/s", "1,000", "..", "3,000", "(3)"]
    assert ratio.split() == ["ratio", "0.38", "0.25", "..", "0.50", "(2)"]
    assert document([section])["ratio"] == {
        "unit": "",
        "min": 0.25,
        "median": 0.375,
        "max": 0.5,
        "samples": [0.5, 0.25],
    }


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5), (0.99, 10), (0.0, 1), (1.0, 10)])
def test_percentile_is_a_sample(share: float, expected: int) -> None:
    assert percentile(range(10, 0, -1), share) == expected
