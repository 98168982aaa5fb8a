"""Mutations of effects: what is done outside, when, and how often."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Rewritten

MUTATIONS: Final = (
    Mutation(
        "manual_effect_tried_again",
        "After a death a manual effect is tried again, though it may have happened.",
        "P5",
        (Rewritten("store.run_parking:_end_after_crash", "is RecoveryKind.MANUAL", "is None"),),
        Catch("never_done_twice_by_itself", "orders", range(400)),
    ),
    Mutation(
        "harmless_effect_waits_for_a_person",
        "The run of an effect that is harmless waits for a person when its runner has died.",
        "P5",
        (
            Rewritten(
                "store.run_parking:_end_after_crash",
                "is RecoveryKind.MANUAL",
                "in {RecoveryKind.MANUAL, RecoveryKind.IDEMPOTENT}",
            ),
        ),
        Catch("harmless_effect_is_tried_again", "orders", range(400)),
    ),
    Mutation(
        "look_skipped",
        "An effect that can be looked for is sent again without a look.",
        "P5",
        (
            Rewritten(
                "store.run_effects:RunEffects.reserve",
                "look_first=observable and not wanted.observed",
                "look_first=False",
            ),
        ),
        Catch("looked_for_before_it_is_sent_again", "orders", range(400)),
    ),
    Mutation(
        "applied_effect_sent_again",
        "An effect that is applied is given out once more.",
        "P5",
        (
            Rewritten(
                "store.effects:reserve",
                "effect.status in {EffectStatus.APPLIED, EffectStatus.REJECTED}",
                "False",
            ),
            Rewritten(
                "store.effects:reserve",
                "EFFECT_MACHINE.apply(effect.status, EffectMove.TAKE)",
                "EffectStatus.APPLYING",
            ),
        ),
        Catch("resolved_against_the_runner", "orders", range(400)),
    ),
    Mutation(
        "effect_outside_the_transaction",
        "An effect is given out, and its try is not in the transaction that says so.",
        "P5",
        (
            Rewritten(
                "store.effects:reserve",
                "    open_attempt(tx, source, effect.effect_id, number, owner_id)\n"
                "    set_outcome(tx, effect, number, Outcome(status))\n",
                "",
            ),
        ),
        Catch("harmless_effect_is_tried_again", "orders", range(400)),
    ),
    Mutation(
        "applied_before_it_is_sent",
        "An effect counts as applied when it is given out.",
        "P5",
        (
            Rewritten(
                "store.effects:reserve", "Outcome(status))", "Outcome(EffectStatus.APPLIED))"
            ),
        ),
        Catch("harmless_effect_is_tried_again", "orders", range(400)),
    ),
    Mutation(
        "sent_before_it_is_reserved",
        "A node's code acts before its effect is reserved.",
        "P5",
        (
            Rewritten(
                "pi_workflows.runner.attempt:Attempt._reserve",
                "    outgoing.add(wanted)\n    granted",
                "    ahead = Reservation('effect-ahead', 1, effect.recovery)\n"
                "    yield from self._call(Purpose.NODE, self._timeout_ms, ahead)\n"
                "    outgoing.add(wanted)\n    granted",
            ),
        ),
        Catch("sent_once", "sim", range(20)),
    ),
    Mutation(
        "sent_before_the_commit",
        "Whoever acts outside does not wait whether the write before was accepted.",
        "P5",
        (Rewritten("pi_workflows.chaos.scene:Me.unless_lost", "return False", "return True"),),
        Catch("sent_only_if_recorded", "orders", range(100)),
        general=("orders", "procs"),
    ),
    Mutation(
        "old_receipt_settles",
        "The end of an earlier try settles the one that is under way.",
        "P4",
        (
            Rewritten("store.effects:settle", "number != effect.attempt_count", "False"),
            Rewritten(
                "store.effects:settle",
                "close_attempt(tx, effect.effect_id, number, end)\n"
                "    set_outcome(\n        tx, effect, number,",
                "close_attempt(tx, effect.effect_id, effect.attempt_count, end)\n"
                "    set_outcome(\n        tx, effect, effect.attempt_count,",
            ),
        ),
        Catch("stale_receipt", "orders", range(400)),
    ),
    Mutation(
        "second_word_moves",
        "An effect that was resolved is resolved again, in another way.",
        "P2",
        (
            Rewritten(
                "store.effect_resolving:resolve_effect",
                "status is not EffectStatus.AMBIGUOUS",
                "False",
            ),
            Rewritten(
                "store.effects:resolve",
                "effect.status is not EffectStatus.AMBIGUOUS",
                "False",
            ),
            Rewritten(
                "store.effects:resolve",
                "EFFECT_MACHINE.apply(effect.status, evidence.move)",
                "{EffectMove.APPLY: EffectStatus.APPLIED,"
                " EffectMove.REJECT: EffectStatus.REJECTED}"
                ".get(evidence.move, EffectStatus.PENDING)",
            ),
        ),
        Catch("first_word_stands", "orders", range(400)),
    ),
    Mutation(
        "effect_left_open",
        "An effect that was under way when its owner died stays under way.",
        "P8",
        (
            Rewritten(
                "store.run_parking:_recover_effects",
                "effect.status is EffectStatus.APPLYING",
                "False",
            ),
        ),
        Catch("harmless_effect_is_tried_again", "orders", range(400)),
    ),
    Mutation(
        "finished_without_its_effect",
        "A try counts as done although its effect was never applied.",
        "P5",
        (
            Rewritten(
                "store.run_advance:_Advance._finish",
                "self._effects.check_settled(attempt, node, finish.outcome)",
                "pass",
            ),
        ),
        Catch("hasty_runner", "orders", range(400)),
    ),
)
