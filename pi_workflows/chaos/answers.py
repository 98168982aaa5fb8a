"""Answers to the actors of a scene: how they read in a report, and what the outside says."""

from pi_workflows.chaos.scene import Sending, Sent, StoreWork
from runtime.chaos.subject import Answer, Words
from store.authority import Claim
from store.errors import ClaimLostError, Rejected


def words_of(work: object, answer: Answer) -> Words:
    """Put an answer into words, without tokens and payloads."""
    generation = work.generation if isinstance(work, StoreWork | Sending) else None
    if answer.error is not None:
        return Words(_refusal(answer.error), generation)
    if isinstance(answer.result, Claim):
        generation = answer.result.generation
    return Words(few_words(answer.result), generation)


def few_words(result: object) -> str:
    """Put a result into words, without tokens and payloads."""
    if isinstance(result, Claim):
        return f"generation {result.generation}"
    if isinstance(result, bool):
        return "yes" if result else "no"
    if isinstance(result, int):
        return str(result)
    return "" if result is None else type(result).__name__


def arrive(sent: list[Sent], actor: str, sending: Sending) -> bool:
    """Let something arrive outside; False when it is refused as stale.

    The outside refuses a generation below one that it has seen of this target.

    Args:
        sent: what has arrived so far; grows.
    """
    newest = max(
        (
            each.generation
            for each in sent
            if each.target == sending.target and each.generation is not None
        ),
        default=0,
    )
    accepted = sending.generation is None or sending.generation >= newest
    sent.append(Sent(actor, sending.target, sending.key, sending.generation, accepted))
    return accepted


def _refusal(error: Exception) -> str:
    if isinstance(error, ClaimLostError):
        return f"refused: {error.code} ({error.reason})"
    if isinstance(error, Rejected):
        return f"refused: {error.code}"
    return f"failed: {type(error).__name__}"
