"""The kernel goes through every order once, and shares what orders have in common."""

import math

import pytest

from runtime.chaos.acting import Request, ask
from runtime.chaos.complaints import promise_of
from runtime.chaos.engine import Wanted
from runtime.chaos.explorer import Explorer, Played
from runtime.chaos.outcome import ScenarioRefused, Verdict
from runtime.chaos.scenario import Budgets
from tests.chaos.ledgers import Actor, Body, Declaration, Ledger, Lost, explored, playing


def walkers(*steps: int, budgets: Budgets | None = None) -> Body:
    """Return a scenario of actors that each change the number so many times."""

    def scenario(plan: Declaration) -> None:
        for index, count in enumerate(steps):

            async def walker(me: Actor, count: int = count) -> None:
                for step in range(count):
                    await me.change(lambda number: number + 1, f"step-{step}")

            walker.__name__ = f"walker{index}"
            plan.actor()(walker)
        plan.budgets = budgets or Budgets()

    return scenario


def multinomial(*counts: int) -> int:
    return math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))


@pytest.mark.parametrize("steps", [(1,), (3,), (1, 1), (2, 2), (3, 3), (2, 2, 2), (1, 2, 3)])
def test_every_order_of_fixed_actors_is_played_once(steps: tuple[int, ...]) -> None:
    tally = explored(walkers(*steps))
    assert (tally.explored, tally.complete) == (multinomial(*steps), True)
    assert tally.not_deterministic == []


@pytest.mark.parametrize("jumps", [1, 2])
def test_jumps_of_the_clock_fall_into_every_gap(jumps: int) -> None:
    tally = explored(walkers(2, 2, budgets=Budgets(clock_jump=(1.0,) * jumps)))
    assert tally.explored == multinomial(2, 2, jumps)
    assert tally.faults["clock_jump"] > 0


def test_an_actor_is_killed_at_every_place_or_nowhere() -> None:
    # Alone it makes 3 steps; the kill comes before one of them, or never.
    assert explored(walkers(3, budgets=Budgets(kill=1))).explored == 4


def test_orders_share_what_they_have_in_common() -> None:
    ledgers: list[Ledger] = []
    explorer = Explorer(playing(walkers(3, 3, 3), ledgers), Wanted())
    tally = explorer.explore(is_all=True)
    assert tally.explored == multinomial(3, 3, 3)
    assert ledgers[0].performed < 9 * tally.explored / 2


def test_shared_steps_leave_the_traces_as_they_are_from_scratch() -> None:
    body = walkers(2, 2, budgets=Budgets(clock_jump=(1.0,), drop=1, kill=1, shared_batch=1))
    explorer = Explorer(playing(body), Wanted())
    digests: list[tuple[dict[str, str], str]] = []
    account = explorer._account

    def noting(played: Played, seed: int | None) -> None:
        digests.append((dict(played.choices.unusual), played.order.digest()))
        account(played, seed)

    explorer._account = noting  # type: ignore[method-assign]
    explorer.explore(is_all=True)
    assert len(digests) > 800
    for choices, digest in digests:
        assert Explorer(playing(body), Wanted()).repeat(choices).digest == digest
    assert len({digest for _, digest in digests}) == len(digests)


def test_parts_of_the_work_are_disjoint_and_make_the_whole() -> None:
    whole = explored(walkers(3, 3, 2))
    parts = [explored(walkers(3, 3, 2), Wanted(part=(number, 3))) for number in range(3)]
    assert all(0 < part.explored < whole.explored for part in parts)
    total = parts[0]
    for part in parts[1:]:
        total.add(part)
    assert (total.explored, total.complete) == (whole.explored, True)
    assert total.pairs == whole.pairs


def lost_update(plan: Declaration) -> None:
    """Both read, both write what they have read plus one."""

    @plan.actor(count=2)
    async def counter(me: Actor) -> None:
        read = await me.change(lambda number: number, "read")
        await me.change(lambda _: read + 1, "write")

    @plan.finally_
    def both_count(ledger: Ledger) -> None:
        assert ledger.number == 2


def test_planted_race_is_found_small_and_repeatable() -> None:
    tally = explored(lost_update)
    assert tally.verdict is Verdict.VIOLATED
    finding = tally.findings[0]
    assert finding.complaint == "both_count: assert 1 == 2"
    assert len(finding.choices) == 1
    again = Explorer(playing(lost_update), Wanted()).repeat(finding.choices)
    assert again.finding == finding
    assert again.unused == frozenset()


@pytest.mark.parametrize(
    ("complaint", "promise"),
    [
        ("fenced: P4: an old owner wrote", "P4"),
        ("P4: an old owner wrote", "P4"),
        ("worker-0 failed: P4: an old owner wrote", "P4"),
        ("fenced: an old owner wrote", "P3, P4"),
        ("fenced: not P4: an old owner wrote", "P3, P4"),
    ],
)
def test_promise_that_a_complaint_names_is_the_broken_one(complaint: str, promise: str) -> None:
    assert promise_of(complaint, ("P3", "P4"), "fenced") == promise
    assert promise_of("fenced: old", (), "fenced") == "fenced"


def test_repeating_stops_after_so_many_moments() -> None:
    [finding, *_] = explored(lost_update).findings
    again = Explorer(playing(lost_update), Wanted()).repeat(finding.choices, until=2)
    assert again.timeline == finding.timeline[:2]
    assert again.finding is None


def test_what_an_actor_does_to_an_answer_is_not_seen_in_the_next_order() -> None:
    lengths: set[int] = set()

    def scenario(plan: Declaration) -> None:
        walkers(2)(plan)

        @plan.actor()
        async def collector(me: Actor) -> None:
            found = await me.listed()
            found.append(0)
            lengths.add(len(found))
            await me.sync("end")

    assert explored(scenario).explored == 6
    assert lengths == {2}


def test_failing_actor_is_a_finding() -> None:
    def scenario(plan: Declaration) -> None:
        @plan.actor()
        async def clumsy(me: Actor) -> None:
            await me.sync("before")
            raise KeyError("nothing here")

    tally = explored(scenario)
    complaint = tally.findings[0].complaint
    assert complaint.startswith("clumsy failed: KeyError: 'nothing here' (test_orders.py:")


def test_sleepers_let_time_pass_when_nobody_else_can_go_on() -> None:
    woken: list[int] = []

    def scenario(plan: Declaration) -> None:
        @plan.actor(count=2)
        async def sleeper(me: Actor) -> None:
            began = me.now_ms
            await me.sleep(2 if me.number else 1)
            woken.append(me.now_ms - began)

    tally = explored(scenario)
    assert (tally.explored, tally.complete) == (1, True)
    assert set(zip(woken[::2], woken[1::2], strict=True)) == {(1000, 2000)}


def test_lost_answers_are_lost_before_and_after_the_work() -> None:
    outcomes: set[tuple[int, str]] = set()

    def scenario(plan: Declaration) -> None:
        told: list[str] = []

        @plan.actor()
        async def asker(me: Actor) -> None:
            try:
                await me.change(lambda number: number + 1)
                told.append("answered")
            except Lost:
                told.append("lost")

        plan.faults(drop=1)

        @plan.finally_
        def note(ledger: Ledger) -> None:
            outcomes.add((ledger.number, told[0]))

    assert explored(scenario).explored == 3
    assert outcomes == {(1, "answered"), (1, "lost"), (0, "lost")}


@pytest.mark.parametrize(("fault", "numbers"), [("duplicate", {1, 2}), ("delay", {1})])
def test_copies_and_late_requests_arrive_at_any_later_time(fault: str, numbers: set[int]) -> None:
    seen: set[int] = set()
    logs: set[str] = set()

    def scenario(plan: Declaration) -> None:
        @plan.actor()
        async def asker(me: Actor) -> None:
            try:
                await me.change(lambda number: number + 1)
            except Lost:
                await me.change(lambda number: number, "look")
            await me.change(lambda number: number, "end")

        plan.budgets = Budgets(duplicate=fault == "duplicate", delay=fault == "delay")

        @plan.finally_
        def note(ledger: Ledger) -> None:
            seen.add(ledger.number)
            logs.add(" ".join(ledger.log).replace("asker ", ""))

    explored(scenario)
    assert seen == numbers
    if fault == "delay":
        assert {"look change end", "look end change", "change look end"} <= logs
    else:
        assert {"change change end", "change end change"} <= logs


def test_waiting_commands_may_share_a_batch_and_the_budget_holds() -> None:
    most: list[int] = []

    def scenario(plan: Declaration) -> None:
        walkers(1, 1, 1, budgets=Budgets(shared_batch=1))(plan)

        @plan.finally_
        def note(ledger: Ledger) -> None:
            most.append(max(ledger.batches))

    explored(scenario)
    assert set(most) == {1, 2}


def test_budgets_are_respected_in_every_order() -> None:
    kills: set[int] = set()

    def scenario(plan: Declaration) -> None:
        budgets = Budgets(clock_jump=(1.0,), kill=1, drop=1, duplicate=1)
        walkers(2, 2, budgets=budgets)(plan)

        @plan.finally_
        def anything(_: Ledger) -> None:
            """What is looked at here are the budgets."""

    explorer = Explorer(playing(scenario), Wanted())
    account = explorer._account

    def noting(played: Played, seed: int | None) -> None:
        spent = played.order.remaining.spent
        kills.add(spent["kill"])
        assert max(spent[kind] for kind in ("clock_jump", "kill", "drop", "duplicate")) <= 1
        account(played, seed)

    explorer._account = noting  # type: ignore[method-assign]
    tally = explorer.explore(is_all=True)
    assert kills == {0, 1}
    assert tally.blind_spots == []


def test_order_whose_work_cannot_be_undone_is_played_from_scratch() -> None:
    def gone(_: int) -> int:
        raise LookupError

    refused: list[str] = []

    def scenario(plan: Declaration) -> None:
        walkers(2)(plan)

        @plan.actor()
        async def breaker(me: Actor) -> None:
            await me.change(lambda number: number + 1)
            try:
                await me.change(gone)
            except LookupError:
                refused.append(me.name)

        @plan.finally_
        def neighbours_stand(ledger: Ledger) -> None:
            assert ledger.number == 3

    ledgers: list[Ledger] = []
    tally = Explorer(playing(scenario, ledgers), Wanted()).explore(is_all=True)
    assert (tally.explored, tally.broken, tally.complete) == (multinomial(2, 2), 0, True)
    assert tally.not_deterministic == []
    assert len(ledgers) > tally.explored


def test_race_in_a_step_is_seen_by_an_invariant_that_always_holds() -> None:
    def scenario(plan: Declaration) -> None:
        walkers(2, 2)(plan)

        @plan.always
        def never_three(ledger: Ledger) -> None:
            assert ledger.number != 3, "three"

    tally = explored(scenario, Wanted(findings_max=1))
    assert tally.findings[0].complaint == "never_three: three"
    assert len(tally.findings[0].timeline) == 3


def test_two_places_at_once_are_counted() -> None:
    tally = explored(walkers(2, 1))
    assert tally.pairs == {
        "walker0 at step-0 | walker1 at step-0",
        "walker0 at step-1 | walker1 at step-0",
    }
    assert tally.pairs_feasible == 2


def test_invariant_that_fails_by_itself_is_refused() -> None:
    def scenario(plan: Declaration) -> None:
        walkers(1)(plan)

        @plan.finally_
        def sloppy(ledger: Ledger) -> None:
            raise IndexError(ledger.number)

    with pytest.raises(ScenarioRefused, match=r"test_orders.py:\d+: the invariant sloppy fails"):
        explored(scenario)


def test_scenario_without_actors_is_refused() -> None:
    with pytest.raises(ScenarioRefused, match=r"here.py:1: declare at least one actor"):
        explored(lambda _plan: None)


def test_endless_actor_is_refused() -> None:
    def scenario(plan: Declaration) -> None:
        @plan.actor()
        async def restless(_: Actor) -> None:
            while True:
                await ask(Request("again"))

    with pytest.raises(ScenarioRefused, match="has not ended after"):
        explored(scenario)


def test_what_could_not_have_failed_is_reported() -> None:
    def scenario(plan: Declaration) -> None:
        @plan.actor()
        async def idle(me: Actor) -> None:
            await me.sync("once")

        plan.faults(drop=1)

        @plan.always
        def unused(_: Ledger) -> None:
            """Never asked: nothing is ever done."""

    assert explored(scenario).blind_spots == [
        "invariant unused never ran",
        "fault drop never fired",
        "there is one order only",
    ]


def test_budget_that_ends_before_the_last_order_is_told() -> None:
    tally = explored(walkers(3, 3, 3), Wanted(budget_s=0.0))
    assert tally.verdict is Verdict.BUDGET_ENDED
    assert not tally.complete


def test_goal_is_met_and_every_order_is_told() -> None:
    told: list[tuple[str, int]] = []
    wanted = Wanted(goals={"orders": 120}, tell=lambda unit, count: told.append((unit, count)))
    tally = Explorer(playing(walkers(4, 4, 4)), wanted).explore(is_all=False)
    assert (tally.explored, tally.complete, tally.verdict) == (120, False, Verdict.HELD)
    assert told == [("orders", 50), ("orders", 50), ("orders", 20)]


def test_few_orders_are_all_played_though_only_some_are_wanted() -> None:
    wanted = Wanted(goals={"orders": 5})
    tally = Explorer(playing(walkers(3, 3)), wanted).explore(is_all=False)
    assert (tally.explored, tally.complete) == (20, True)
