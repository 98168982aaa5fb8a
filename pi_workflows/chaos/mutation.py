"""A mutation: one fault of the product with a name, and where the harness is known to find it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.chaos.planting import Change


@dataclass(frozen=True, slots=True)
class Catch:
    """Explorations one of which a mutation makes break a promise.

    Attributes:
        scenario: name of a shipped one.
        engine: by which it is explored.
        seeds: which are drawn from, one after the other until the first finding; None explores
            whatever the engine can, in its own order.
        choices: explore only this, whatever the seeds: the unusual decisions, by name.
    """

    scenario: str
    engine: str
    seeds: range | None = None
    choices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault that is planted from outside, and that some scenario has to find.

    Attributes:
        name: a word with underscores.
        breaks: one sentence: what the product does not do any more.
        promise: of `docs/guarantees.md`: "P3".
        changes: what is planted, all at once.
        caught: where it is known to be found.
        general: engines by which a scenario of a user's own could notice it too.
    """

    name: str
    breaks: str
    promise: str
    changes: tuple[Change, ...]
    caught: Catch
    general: tuple[str, ...] = ()
