"""The catalogue of mutations: what is planted to prove that the harness can fail.

A process that is started for an exploration is told by its arguments what is planted, never by
its environment: `planted_names` in the process that starts it, `planted_mutation` in the new one.
"""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import chain
from typing import Final

from pi_workflows.chaos import (
    mutations_of_bounds,
    mutations_of_claims,
    mutations_of_commands,
    mutations_of_commits,
    mutations_of_disks,
    mutations_of_effects,
    mutations_of_follow_ups,
    mutations_of_lifecycle,
    mutations_of_servers,
    mutations_of_settings,
    mutations_of_standstills,
    mutations_of_starts,
)
from pi_workflows.chaos.mutation import Mutation
from runtime.chaos.planting import planted

MUTATIONS: Final[dict[str, Mutation]] = {
    mutation.name: mutation
    for mutation in chain(
        mutations_of_claims.MUTATIONS,
        mutations_of_commits.MUTATIONS,
        mutations_of_disks.MUTATIONS,
        mutations_of_commands.MUTATIONS,
        mutations_of_effects.MUTATIONS,
        mutations_of_follow_ups.MUTATIONS,
        mutations_of_lifecycle.MUTATIONS,
        mutations_of_servers.MUTATIONS,
        mutations_of_settings.MUTATIONS,
        mutations_of_starts.MUTATIONS,
        mutations_of_bounds.MUTATIONS,
        mutations_of_standstills.MUTATIONS,
    )
}
"""Every mutation by its name."""

_IN_PLACE: Final[list[str]] = []


class MutationUnknown(Exception):
    """There is no such mutation; the text lists what there is."""


def known_mutation(name: str) -> Mutation:
    """Return the mutation of this name.

    Raises:
        MutationUnknown: there is none.
    """
    if name not in MUTATIONS:
        raise MutationUnknown(f'there is no mutation "{name}"; there are: {", ".join(MUTATIONS)}.')
    return MUTATIONS[name]


@contextmanager
def planted_mutation(name: str) -> Generator[None]:
    """Plant a mutation in this process for the time of a block.

    Raises:
        MutationUnknown: there is none of this name.
        PlantingRefused: it does not fit the code any more.
    """
    with planted(known_mutation(name).changes):
        _IN_PLACE.append(name)
        try:
            yield
        finally:
            _IN_PLACE.remove(name)


def planted_names() -> tuple[str, ...]:
    """Return what is planted in this process now: its children have to plant it too."""
    return tuple(_IN_PLACE)
