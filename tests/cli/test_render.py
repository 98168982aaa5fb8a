"""Plain rendering: durations, tables, texts without control characters."""

import pytest

from pi_workflows.cli import output, render
from pi_workflows.protocol.canonical import JsonObject


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_949, "59.9 s"),
        (60_000, "1 m 00 s"),
        (185_000, "3 m 05 s"),
        (3_600_000, "1 h 00 m"),
        (90_060_000, "25 h 01 m"),
    ],
)
def test_durations_read_as_people_say_them(milliseconds: int, text: str) -> None:
    assert render.duration(milliseconds) == text


def test_a_table_aligns_cuts_and_cleans_its_cells() -> None:
    text = render.table(("A", "B"), [("x\x1b[1m", "y" * 70), ("long cell", "z\nz")])
    lines = text.splitlines()
    assert lines[0] == "A          B"
    assert lines[1] == f"x[1m       {'y' * 59}…"
    assert lines[2] == "long cell  z z"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [("ends/__piw_exit_fixed", "ends.fixed"), ("ends/look", "ends/look"), ("a\x1b[1m", "a[1m")],
)
def test_nodes_are_named_as_their_authors_know_them(stored: str, shown: str) -> None:
    assert render.node_name({"nodeId": stored, "visit": 1}) == shown
    assert render.node_name({"nodeId": stored, "visit": 3}) == f"{shown} #3"


def test_instants_that_are_none_or_no_instant_are_empty() -> None:
    assert render.local_time(None) == ""
    assert render.local_time("yesterday") == ""
    assert render.span(None, None) == ""


def test_every_control_character_but_newline_and_tab_is_removed() -> None:
    everything = "".join(map(chr, range(0xA0)))
    kept = output.safe_text(everything)
    assert kept == "\t\n" + "".join(map(chr, range(0x20, 0x7F)))
    assert output.safe_text("a\u202eb\u2066c") == "abc"


def test_json_escapes_what_a_terminal_would_obey() -> None:
    assert output.json_text("\x1b\x9b\u202e\ud800ä") == '"\\u001b\\u009b\\u202e\\ud800ä"'


def test_a_run_shows_name_and_title_visits_and_where_a_failed_commands_output_is() -> None:
    at = "2026-01-02T03:04:05.006Z"
    step: JsonObject = {"nodeId": "append", "outcome": "ok", "startedAt": at, "finishedAt": at}
    receipt: JsonObject = {"actionType": "shell", "stderrTail": "no space left"}
    failed: JsonObject = {**step, "visit": 2, "outcome": "failed", "action": receipt}
    shown = render.run_state(
        {
            "runId": "run-1",
            "workflowName": "lines",
            "runTitle": "write 2 lines",
            "status": "failed",
            "steps": [{**step, "visit": 1}, failed],
        }
    )
    assert "workflow  lines: write 2 lines\n" in shown
    assert "✓ append  0 ms\n✗ append #2  0 ms\n" in shown
    assert shown.endswith("pi-workflows show run-1 --json")
    assert "no space left" not in shown


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ({"status": "crashed", "exitCode": 134}, "crashed (exit code 134), "),
        ({"status": "crashed", "signal": "9"}, "crashed (SIGKILL), "),
        ({"status": "crashed", "signal": "999"}, "crashed (signal 999), "),
        ({"status": "timedOut"}, "gave no sign of life in time, "),
        ({"status": "claimLost"}, "lost its claim, "),
    ],
)
def test_a_run_whose_runner_died_shows_how_and_what_it_printed_last(
    end: JsonObject, text: str
) -> None:
    ended: JsonObject = {
        **end,
        "endedAt": "2026-01-02T03:04:05.006Z",
        "outputTail": "Fatal\x1b[2J error\nTraceback\n",
    }
    shown = render.run_state({"runId": "run-1", "status": "queued", "lastRunner": ended})
    assert f"its last runner {text}20" in shown
    assert shown.endswith("the end of what it printed:\n  Fatal[2J error\n  Traceback")


def test_a_run_shows_what_may_or_may_not_have_happened_and_what_to_do() -> None:
    shown = render.run_state(
        {
            "runId": "run-1",
            "status": "waiting",
            "display": {"status": "ambiguous", "reason": "look there", "controls": []},
            "effects": [
                {"effectType": "mail.send", "status": "ambiguous", "error": "nobody saw\nit"}
            ],
        }
    )
    assert "status    ambiguous" in shown
    assert "↯ mail.send  ambiguous  nobody saw\n" in shown
    assert "look there" in shown
