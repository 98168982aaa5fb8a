"""The faults of the core scenarios really happen: each ending is met within a few seeds."""

import pytest

from pi_workflows.chaos.sim_scenarios import hold
from pi_workflows.chaos.store_callers import Told
from runtime.sync_points import SyncPoint

SEEDS = 40
"""Every word below is met far earlier."""

MET = {
    "runner_dies": ("run.queue_parked", '"outcome": "crashed"', "signal 9"),
    "server_dies": ("run_resume_prepared", "run.queue_parked"),
    "server_freezes": ("SIGSTOP", "SIGCONT", "start_refused", "server_displaced"),
    "machine_sleeps": ("stepped", "SIGSTOP"),
    "run_is_cancelled": ("run_cancelled", "run_completed"),
    "run_is_paused": ("run.paused", "run.resume_requested", "run_resume_prepared"),
    "charged_once": ("effect.ambiguous", "effect.applied", "run_completed"),
    "sent_once": ("effect.retry_ready", "effect.applied", "run_completed"),
    "clock_jumps": ("stepped",),
    "clock_goes_forward_and_back": ("stepped",),
    "power_goes": ("power cut", "booted", "run_resume_prepared"),
    "names_are_used_again": ("run.queue_parked",),
    "cancel_meets_launch": ("run_cancelled", "run_completed"),
    "retry_meets_cancel": ("run_cancelled", "run_completed", "node_failed"),
    "two_servers_start": ("start_refused",),
    "several_runs": ("drop", "delay", "duplicate"),
    "storm": ("run_cancelled", "run_completed", "SIGSTOP", "run_resume_prepared", "woke"),
    "views_converge": ("run_snapshot", "SIGKILL"),
    "silent_server": ("SIGSTOP", '"standing": "claiming"', "server_displaced"),
    "start_in_vain": ("server_failed", "server_ready"),
    "write_lock_is_taken": ("STATE_BUSY", "run_completed"),
    "ten_minutes_asleep": ("stepped", "SIGSTOP", "run_resume_prepared"),
    "stops_waiting": (
        "stops waiting at the door",
        "stops waiting at any turn",
        *(f"stops waiting at {point}" for point in SyncPoint if point.startswith("cmd.")),
        *Told,
    ),
    "code_is_late": ("abandonedCode", "node_failed", "run_completed"),
}


@pytest.mark.parametrize("name", MET)
def test_what_a_scenario_is_about_happens(name: str) -> None:
    missing = set(MET[name])
    for seed in range(SEEDS):
        trace = hold(name, seed).trace
        story = "\n".join(f"{what} {text}" for _, _, what, text in trace.entries)
        missing = {word for word in missing if word not in story}
        if not missing:
            return
    assert not missing
