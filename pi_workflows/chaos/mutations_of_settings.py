"""Mutations of settings: what counts that is stale, and what is changed too late."""

from typing import Final

from pi_workflows.chaos.mutation import Catch, Mutation
from runtime.chaos.planting import Rewritten

MUTATIONS: Final = (
    Mutation(
        "stale_settings_route",
        "What a settings route has made of older settings is recorded.",
        "P2",
        (
            Rewritten(
                "store.run_settings:RunSettings.rerun",
                "began.settings_change_number == scope.change_number",
                "True",
            ),
        ),
        Catch("changed_or_recorded", "orders", range(400)),
    ),
    Mutation(
        "settings_of_older_ones",
        "A change counts though it was made of settings that others have changed since.",
        "P2",
        (
            Rewritten(
                "store.settings_changing:change_settings",
                "wanted.made_of != scope.change_number",
                "False",
            ),
        ),
        Catch("changed_or_recorded", "orders", range(400)),
    ),
    Mutation(
        "settings_after_the_end",
        "Settings of a run that has ended are changed.",
        "P2",
        (
            Rewritten(
                "store.settings_changing:require_open",
                "if run.terminal:",
                "if False:",
            ),
        ),
        Catch("changed_or_ended", "orders", range(400)),
    ),
)
