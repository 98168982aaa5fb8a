"""Mutations of ownership: claims, their generations and tokens, and the instant of expiry."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Reworded, Rewritten

_TOKEN_CHECK: Final = Rewritten(
    "store.authority:check_claim",
    "held.token_hash is None or not hmac.compare_digest(held.token_hash, claim.token_hash)",
    "False",
)
_GENERATION_CHECK: Final = Rewritten(
    "store.authority:check_claim", "held.generation != claim.generation", "False"
)
_OWNER_CHECK: Final = Rewritten(
    "store.authority:check_claim",
    "(held.owner_type, held.owner_id) != (claim.owner_type, claim.owner_id)",
    "False",
)

MUTATIONS: Final = (
    Mutation(
        "no_claim_check",
        "A claim that was replaced is taken for the one that counts.",
        "P4",
        (_OWNER_CHECK, _TOKEN_CHECK, _GENERATION_CHECK),
        Catch("thawed_holder", "orders", range(400)),
        general=("orders", "procs"),
    ),
    Mutation(
        "owner_id_is_enough",
        "Whoever has the owner's id may write, under whatever generation.",
        "P4",
        (_TOKEN_CHECK, _GENERATION_CHECK),
        Catch("same_owner_again", "orders", range(400)),
    ),
    Mutation(
        "no_token_check",
        "A claim counts without its secret.",
        "P4",
        (_TOKEN_CHECK,),
        Catch("told_why_it_is_lost", "orders", range(400)),
    ),
    Mutation(
        "no_generation_check",
        "A claim counts under a generation that was never given out.",
        "P4",
        (_GENERATION_CHECK,),
        Catch("told_why_it_is_lost", "orders", range(400)),
    ),
    Mutation(
        "secret_is_stored",
        "The event by which a claim is given out holds its secret.",
        "P4",
        (
            Rewritten(
                "store.leases:claim",
                '{"generation": taken.generation}',
                '{"generation": taken.generation, "token": taken.token}',
            ),
        ),
        Catch("told_why_it_is_lost", "orders", range(400)),
    ),
    Mutation(
        "expiry_ignored",
        "An owner goes on writing after its claim has expired.",
        "P4",
        (Rewritten("store.authority:check_claim", "not held.live(now)", "False"),),
        Catch("lapsed_owner_can_only_release", "orders", range(400)),
        general=("orders", "procs"),
    ),
    Mutation(
        "expiry_off_by_one",
        "At the very millisecond of its expiry a claim still counts.",
        "P4",
        (
            Rewritten(
                "store.authority:HoldingRow.live",
                "self.expires_at > now",
                "self.expires_at >= now",
            ),
        ),
        Catch("at_the_instant_of_expiry", "orders", range(400)),
    ),
    Mutation(
        "live_claim_taken",
        "What somebody owns is given to the next one who asks.",
        "P3",
        (Rewritten("store.leases:take", "held.live(tx.now)", "False"),),
        Catch("one_winner", "orders", range(400)),
        general=("orders", "procs"),
    ),
    Mutation(
        "renewal_shortens",
        "A renewal after the clock was set back takes time away that was promised.",
        "P3",
        (
            Reworded(
                "store.authority:UPDATE_RENEWED", "max(expires_at, :expires_at)", ":expires_at"
            ),
        ),
        Catch("clock_steps", "orders", range(400)),
    ),
    Mutation(
        "live_claim_not_renewed",
        "The renewal of a claim is refused although it is live.",
        "P3",
        (
            Rewritten(
                "store.leases:renew_claim",
                "claim, tx.now)\n    return",
                "claim, tx.now + 30_000)\n    return",
            ),
        ),
        Catch("renewed_and_reclaimed", "orders", range(400)),
    ),
    Mutation(
        "lost_claim_renewed",
        "A renewal looks at nothing, so the claim of another is extended.",
        "P4",
        (
            Rewritten(
                "store.leases:renew_claim",
                "check_claim(holding(tx, claim.resource_id), claim, tx.now)",
                "holding(tx, claim.resource_id)",
            ),
        ),
        Catch("thawed_holder", "orders", range(400)),
    ),
    Mutation(
        "release_of_anothers",
        "Somebody who was replaced frees the claim of his successor.",
        "P4",
        (
            Rewritten(
                "store.leases:release",
                "check_claim(held, claim, min(tx.now, (held.expires_at or tx.now) - 1))",
                "pass",
            ),
            Rewritten(
                "store.leases:release",
                "drop(tx, claim.resource_id, claim.generation)",
                "drop(tx, claim.resource_id, held.generation)",
            ),
        ),
        Catch("released_too_late", "orders", range(400)),
    ),
    Mutation(
        "generation_not_raised",
        "The next owner gets the generation of the last one.",
        "P3",
        (
            Reworded("store.leases:UPDATE_CLAIMED", "generation + 1", "max(generation, 1)"),
            Rewritten(
                "store.leases:take",
                "recorder.generation = held.generation + 1",
                "recorder.generation = max(held.generation, 1)",
            ),
            Rewritten(
                "store.leases:take",
                "owner.owner_id, held.generation + 1",
                "owner.owner_id, max(held.generation, 1)",
            ),
        ),
        Catch("one_winner", "orders", range(400)),
    ),
    Mutation(
        "generation_reset",
        "A release forgets the generation, so that it is given out again.",
        "P3",
        (
            Reworded(
                "store.leases:UPDATE_RELEASED",
                "SET owner_type = NULL",
                "SET generation = 0, owner_type = NULL",
            ),
        ),
        Catch("one_winner", "orders", range(400)),
    ),
    Mutation(
        "claim_survives_the_end",
        "A run that has ended still belongs to somebody.",
        "P3",
        (
            Rewritten(
                "store.run_ending:end_run",
                "leases.drop(tx, recorder.resource_id, recorder.generation)",
                "pass",
            ),
        ),
        Catch("cancelled_or_claimed", "orders", range(400)),
    ),
)
