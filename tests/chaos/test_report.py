"""What a report says, as text, JSON and JUnit: figures, blind spots, and how to see it again."""

import json
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from signal import Signals

from runtime.chaos.junit import junit_text
from runtime.chaos.outcome import Finding, Moment, Tally, Verdict
from runtime.chaos.report import Failure, Report, report_json
from runtime.chaos.report_text import report_text
from runtime.chaos.tally_json import tally_json, tally_of


def held(**changes: object) -> Tally:
    tally = Tally("one_winner", "orders", "orders", explored=84_492, complete=True, seconds=12.0)
    tally.checks = Counter(at_most_one=84_492)
    for name, value in changes.items():
        setattr(tally, name, value)
    return tally


FINDING = Finding(
    scenario="fenced",
    engine="orders",
    promise="P4",
    complaint="worker-0 wrote under generation 1\x07 <&>",
    choices={"worker-0 after claim#1": "worker-1"},
    seed=None,
    timeline=(Moment(0, "worker-0", "claim", "held", 1), Moment(0, "worker-1", "claim")),
    digest="ab" * 32,
)
BROKEN = Tally("fenced", "orders", "orders", explored=10, broken=2, findings=[FINDING])
FAILURE = Failure(FINDING, "pi-workflows chaos replay chaos-failures/fenced.json", 40)


def test_all_that_held_is_one_line_and_a_table() -> None:
    report = Report(tallies=[held()], seconds=12.0)
    assert report.verdict is Verdict.HELD
    lines = report_text(report).splitlines()
    assert lines[1].split() == ["orders", "one_winner", "84,492", "orders", "yes", "12.0", "s"]
    assert lines[-1] == "✓ everything held, 12.0 s"


def test_a_failure_names_promise_decisions_lanes_and_the_command() -> None:
    text = report_text(Report(tallies=[held(), BROKEN], failures=[FAILURE]))
    for part in (
        "✗ fenced (orders) breaks P4",
        "unusual decisions: 1 (of 40 before shrinking)",
        "· after claim of worker-0: worker-1 goes on",
        "claim → held  g1",
        "see it again: pi-workflows chaos replay chaos-failures/fenced.json",
        "✗ 1 promise broken, by 2 explorations",
    ):
        assert part in text


def test_as_many_are_told_as_are_shown() -> None:
    other = replace(FINDING, promise="P3")
    one, two = replace(BROKEN, broken=1), replace(BROKEN, findings=[FINDING, other, other])
    assert "1 promise broken, by 1 exploration, " in report_text(Report(tallies=[one]))
    assert "2 promises broken, by 2 explorations, " in report_text(Report(tallies=[two]))
    case = ET.fromstring(junit_text(Report(tallies=[one]))).find(".//failure")  # noqa: S314
    assert case is not None
    assert case.get("message") == "broken by 1 exploration"


def test_what_was_not_made_as_small_as_can_be_is_told() -> None:
    short = replace(FAILURE, is_cut_short=True)
    said = "making it small was cut short: `chaos shrink` of its file goes on"
    for failure in (FAILURE, short):
        report = Report(tallies=[BROKEN], failures=[failure])
        [told] = json.loads(json.dumps(report_json(report)))["failures"]
        assert told["shrinkingCutShort"] is failure.is_cut_short
        assert (said in report_text(report)) is failure.is_cut_short
        assert (said in junit_text(report)) is failure.is_cut_short


def test_what_a_signal_has_ended_is_no_success() -> None:
    for tally, word in ((held(), "budget ended"), (BROKEN, "violated")):
        report = Report(tallies=[tally], seconds=12.0, stopped_by=Signals.SIGTERM)
        document = json.loads(json.dumps(report_json(report)))
        assert (document["verdict"], document["exitCode"]) == (word, 143)
        assert document["stoppedBy"] == "SIGTERM"
        assert report_text(report).endswith("stopped by SIGTERM before all was explored, 12.0 s")
    assert report_json(Report(tallies=[held()]))["stoppedBy"] is None


def test_what_could_not_have_failed_is_named() -> None:
    blind = held(
        explored=1,
        checks=Counter(at_most_one=0),
        fault_kinds=frozenset({"kill", "pause"}),
        faults=Counter(kill=3, pause=0),
    )
    text = report_text(Report(tallies=[blind]))
    assert "one_winner (orders): invariant at_most_one never ran" in text
    assert "one_winner (orders): fault pause never fired" in text
    assert "fault kill never fired" not in text
    assert "one_winner (orders): there is one order only" in text


def test_the_worst_decides() -> None:
    short = held(complete=False, promised=100_000)
    unrepeated = held(not_deterministic=["seed 7"])
    for tallies, worst in (
        ([held(), short], Verdict.BUDGET_ENDED),
        ([short, BROKEN], Verdict.VIOLATED),
        ([short, BROKEN, unrepeated], Verdict.NOT_DETERMINISTIC),
    ):
        assert Report(tallies=tallies).verdict is worst


def test_what_is_promised_in_all_outweighs_the_share_of_one() -> None:
    short = held(complete=False, promised=100_000)
    more = held(complete=False, promised=1, explored=20_000)
    assert Report(tallies=[short, more], promised={"orders": 100_000}).verdict is Verdict.HELD
    missed = Report(tallies=[short], promised={"orders": 100_000, "seeds": 500})
    assert missed.verdict is Verdict.BUDGET_ENDED
    assert "(orders 84,492, seeds 0)" in report_text(missed)
    assert [(total.unit, total.complete) for total in missed.totals] == [
        ("orders", False),
        ("seeds", False),
    ]


def test_of_very_many_tallies_there_is_a_row_for_each_engine_and_unit() -> None:
    many = [held(scenario=f"scenario_{n}", explored=10, complete=n < 3) for n in range(50)]
    few = Tally("storm", "sim", "seeds", explored=7, seconds=1.0, faults=Counter(kill=2, drop=1))
    lines = report_text(Report(tallies=[*many, few])).splitlines()
    assert " ".join(lines[1].split()) == "orders 500 orders 3 of 50 scenarios 10 m 00 s"
    assert lines[2].endswith("drop 1; kill 2")
    assert len(lines) < 10


def test_where_all_are_promised_many_are_not_enough() -> None:
    owed = held(all_promised=True, complete=False)
    assert owed.verdict is Verdict.BUDGET_ENDED
    assert Report(tallies=[owed], promised={"orders": 1}).verdict is Verdict.BUDGET_ENDED
    assert held(all_promised=True).verdict is Verdict.HELD


def test_what_is_owed_is_named_as_all() -> None:
    owed = held(unit="I/O errors", all_promised=True, complete=False, explored=7)
    text = report_text(Report(tallies=[owed], promised={"I/O errors": 1}))
    assert "one_winner 7 of all I/O errors" in text


def test_parts_that_shared_each_of_them_have_done_as_many_as_the_slowest() -> None:
    whole, part = (
        held(unit="workloads", is_shared=True, explored=explored, promised=3, complete=False)
        for explored in (3, 1)
    )
    whole.add(part)
    assert (whole.explored, whole.promised, whole.verdict) == (1, 3, Verdict.BUDGET_ENDED)


def test_places_and_what_was_examined_are_told_and_added_up() -> None:
    crash = held(engine="crash", reached=150, places=160, examined=31)
    part = held(engine="crash", reached=0, places=None, examined=9)
    whole = tally_of(tally_json(crash))
    assert whole == crash
    whole.add(part)
    assert (whole.reached, whole.places, whole.examined) == (150, 160, 40)
    header, line, *_ = report_text(Report(tallies=[whole])).splitlines()
    assert line[header.index("EXAMINED") :].split()[:3] == ["40", "yes", "150/160"]
    lines = report_text(Report(tallies=[crash] * 50)).splitlines()
    assert " 1,550  50 of 50 scenarios  7,500/8,000 " in lines[1]
    [told] = json.loads(json.dumps(report_json(Report(tallies=[whole]))))["scenarios"]
    assert told["places"] == {"reached": 150, "known": 160}
    assert told["examined"] == 40


def test_few_are_enough_where_there_are_no_more() -> None:
    assert held(promised=100_000).verdict is Verdict.HELD


def test_the_document_says_the_same() -> None:
    document = report_json(
        Report(tallies=[held(), BROKEN], failures=[FAILURE], versions={"sqlite": "3.54.1"})
    )
    parsed = json.loads(json.dumps(document))
    assert (parsed["verdict"], parsed["exitCode"]) == ("violated", 1)
    assert parsed["scenarios"][0]["complete"] == "yes"
    assert parsed["totals"] == [
        {"unit": "orders", "done": 84_502, "promised": 0, "complete": "no"},
    ]
    failure = parsed["failures"][0]
    assert failure["faults"] == ["after claim of worker-0: worker-1 goes on"]
    assert failure["replay"] == FAILURE.replay
    assert failure["timeline"][0] == {
        "atMs": 0,
        "lane": "worker-0",
        "what": "claim",
        "result": "held",
        "generation": 1,
    }


def test_results_are_read_by_what_reads_junit() -> None:
    short = held(scenario="short", engine="sim", unit="seeds", complete=False, promised=10**6)
    report = Report(tallies=[held(), BROKEN, short], failures=[FAILURE])
    root = ET.fromstring(junit_text(report))  # noqa: S314 - our own text
    suites = {suite.get("name"): suite for suite in root}
    assert (suites["orders"].get("tests"), suites["orders"].get("failures")) == ("2", "1")
    assert suites["sim"].get("errors") == "1"
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("message") == "P4: worker-0 wrote under generation 1 <&>"
    assert "see it again" in (failure.text or "")
    assert root.find(".//property[@name='complete']") is not None


def test_all_there_are_is_enough_however_many_were_promised() -> None:
    few = Report(tallies=[held()], promised={"orders": 5_000_000})
    assert few.verdict is Verdict.HELD
    assert "✓  orders  84,492, all there are" in report_text(few)
    some = Report(
        tallies=[held(), held(scenario="other", complete=False)],
        promised={"orders": 5_000_000},
    )
    assert some.verdict is Verdict.BUDGET_ENDED
    assert "…  orders  168,984 of 5,000,000 promised" in report_text(some)
