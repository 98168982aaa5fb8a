"""What a node says of itself reaches whoever watches, and outlives its runner."""

from typing import Any

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import FIRST, OUTPUT, STEPS, THIRD

TELLING = f"""{FIRST}
@wf.action(effect=idempotent("second.done"))
def second(ctx: Ctx) -> str:
    tries = ctx.effect.attempt_number
    ctx.progress(completed=tries, total=4, unit="try", label="trying")
    ctx.publish_update("try.begun", str(tries), {{"number": tries}})
    return meet("second", attempt=tries)
{THIRD}"""

FLOODING = """
from pi_workflows import UpdateRefused

@wf.action(effect=idempotent("flood.done"))
def only(ctx: Ctx) -> dict:
    taken, codes = 0, set()
    for number in range(300):
        try:
            ctx.publish_update("flood", "k", {"n": number})
            taken += 1
        except UpdateRefused as refused:
            codes.add(refused.code)
    return {"enough": taken >= 100, "all": taken == 300, "codes": sorted(codes)}

workflow = wf.build(start=only)
"""

PRINTING = """
from pi_workflows import Update, progress

def told(line: str) -> Update | None:
    return progress(completed=int(line), total=3, unit="line") if line.isdigit() else None

@wf.shell(effect=idempotent("print.done"), updates=told)
def only() -> Command:
    return Command("sh", ["-c", "echo begin; for n in 1 2 3; do echo $n; done"])

workflow = wf.build(start=only)
"""


def said(view: dict[str, Any]) -> dict[str, Any]:
    return {it["key"]: it["data"] for it in view.get("updates", {}).get("items", [])}


def test_progress_is_seen_while_a_node_works_and_survives_the_death_of_its_runner(
    home: Home,
) -> None:
    """The next try replaces what the dead one said, and what only that one said stays."""
    home.servers.start()
    run_id = home.run(TELLING)
    before = home.meetings.arrive("second")
    shown = said(home.await_view(run_id, lambda view: "1" in said(view)))
    assert (shown["overall"]["completed"], shown["overall"]["label"]) == (1, "trying")
    before.runner.kill()
    after = home.meetings.arrive("second")
    shown = said(home.await_view(run_id, lambda view: "2" in said(view)))
    assert shown["overall"]["completed"] == 2
    assert shown["1"] == {"number": 1}
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    told = home.show(run_id)["updates"]
    assert [(it["type"], it["key"]) for it in told] == [
        ("try.begun", "1"),
        ("progress", "overall"),
        ("try.begun", "2"),
    ]
    assert {it["nodeId"] for it in told} == {"second"}


def test_flood_of_updates_is_refused_to_its_author_and_harms_nobody(home: Home) -> None:
    """Case: B63."""
    home.servers.start()
    run_id = home.run(FLOODING)
    home.await_status(run_id, "completed")
    state = home.show(run_id)
    assert state["finalOutput"]["enough"]
    assert state["finalOutput"]["all"] or state["finalOutput"]["codes"] == ["UPDATE_RATE"]
    assert len(state["updates"]) == 1
    home.assert_verified()


def test_lines_of_a_command_become_progress(home: Home) -> None:
    home.servers.start()
    run_id = home.run(PRINTING)
    home.await_status(run_id, "completed")
    (shown,) = home.show(run_id)["updates"]
    assert (shown["type"], shown["data"]["completed"]) == ("progress", 3)
    kept = "SELECT count(*) FROM workflow_updates"
    assert home.database.column(kept) == [3]
    home.assert_verified()
