"""The shipped scenarios hold in the orders of their commands.

Small ones are gone through completely, the others a little; `chaos run` goes further. Which
acceptance cases that shows, the scenarios say themselves.
"""

from typing import Any

import pytest

from pi_workflows.chaos.orders_engine import OrdersEngine
from pi_workflows.chaos.registry import SCENARIOS
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Tally, Verdict
from runtime.chaos.scenario import Scenario

COMPLETE = frozenset(
    {
        "asked_again",
        "at_the_instant_of_expiry",
        "cancelled_or_claimed",
        "cancelled_or_finished",
        "cancelled_or_launched",
        "cancelled_without_its_claim",
        "first_come",
        "frozen_past_its_expiry",
        "handed_back_late",
        "lapsed_owner_can_only_release",
        "late_words_of_an_old_child",
        "recorded_before_it_is_done",
        "refused_again",
        "refused_write_extends_nothing",
        "revisions",
        "same_key_for_something_else",
        "same_owner_again",
        "stale_receipt",
        "thawed_holder",
        "told_why_it_is_lost",
        "two_servers",
    }
)
SAMPLED = [
    name
    for name, shipped in SCENARIOS.items()
    if "orders" in shipped.engines and name not in COMPLETE
]
FEW = range(8)


def explored(scenario: Scenario[Any], wanted: Wanted) -> Tally:
    [tally] = OrdersEngine().explore(scenario, wanted)
    assert tally.findings == []
    assert tally.not_deterministic == []
    return tally


def holds_in_every_order(*names: str) -> None:
    """Go through every order, in which every fault that is declared has to happen."""
    assert set(names) <= COMPLETE
    for name in names:
        tally = explored(SCENARIOS[name], Wanted(is_all=True))
        assert tally.verdict is Verdict.HELD
        assert tally.complete
        assert tally.explored > 1
        assert tally.blind_spots == []


@pytest.mark.parametrize("name", SAMPLED)
def test_scenario_holds_in_some_orders(name: str) -> None:
    assert explored(SCENARIOS[name], Wanted(seeds=FEW)).explored == len(FEW)


def test_claim_of_what_is_free_or_has_expired_has_one_winner_in_every_order() -> None:
    """One generation after the other, whoever asks, dies, or comes back under the same name."""
    holds_in_every_order("first_come", "same_owner_again")


def test_expiry_is_exact_to_the_millisecond_in_every_order() -> None:
    holds_in_every_order("at_the_instant_of_expiry", "lapsed_owner_can_only_release")


def test_write_extends_a_lease_and_a_refused_one_does_not_in_every_order() -> None:
    holds_in_every_order("refused_write_extends_nothing")


def test_whoever_was_replaced_changes_nothing_in_every_order() -> None:
    """Owner, secret, generation and expiry are told apart, and none of them writes."""
    holds_in_every_order("thawed_holder", "told_why_it_is_lost", "lapsed_owner_can_only_release")
    holds_in_every_order("frozen_past_its_expiry")


def test_words_of_an_old_child_change_nothing_in_every_order() -> None:
    """Said late, said twice, or said otherwise under the same id; and the run does not fail."""
    holds_in_every_order("late_words_of_an_old_child", "stale_receipt", "handed_back_late")


def test_replaced_server_writes_nothing_in_every_order() -> None:
    """Epochs rise by one; an expired server that nobody replaced goes on, another one stops."""
    holds_in_every_order("two_servers")


def test_request_is_carried_out_once_whatever_gets_lost_in_every_order() -> None:
    """Asked again it adopts; the same id or key for something else is a conflict."""
    holds_in_every_order("asked_again", "same_key_for_something_else", "refused_again")


def test_change_of_what_was_not_seen_is_refused_in_every_order() -> None:
    holds_in_every_order("revisions")


def test_cancel_is_told_who_won_in_every_order() -> None:
    """One that has no claim is refused on a live one, and wins over an expired one."""
    holds_in_every_order("cancelled_or_claimed", "cancelled_or_launched", "cancelled_or_finished")
    holds_in_every_order("cancelled_without_its_claim")


def test_effect_is_recorded_before_it_is_done_in_every_order() -> None:
    holds_in_every_order("recorded_before_it_is_done")
