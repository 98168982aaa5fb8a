"""The names and versions that two peers compare before they talk."""

from typing import Final

PACKAGE_VERSION: Final = "0.1.0"
"""Version of the installed package; client and server must agree exactly."""

CLIENT_PROTOCOL: Final = "pi-workflows.client.v1"
RUNNER_LAUNCH: Final = "pi-workflows.runner-launch.v1"
RUNNER_MESSAGE: Final = "pi-workflows.runner-message.v1"
RUNNER_PROTOCOL_VERSION: Final = 1
RESOLVE_REQUEST: Final = "pi-workflows.resolve-request.v1"
SETTINGS_CHECK: Final = "pi-workflows.settings-check.v1"
INSPECT_REQUEST: Final = "pi-workflows.inspect-request.v1"
RESOLVE_LOADING: Final = "loading"
"""Outcome that a resolver sends before the file's code runs: an end after it is that code's."""
DEFINITION_SNAPSHOT: Final = "pi-workflows.definition-snapshot.v1"
INCLUDE_ENTRY: Final = "pi-workflows.include-entry.v1"
COMMAND_BATCH_RESULT: Final = "pi-workflows.command-batch-result.v1"
COMMAND_BATCH_ITEM: Final = "pi-workflows.command-batch-item.v1"
DECISION_PRESENTATION: Final = "pi-workflows.decision-presentation.v1"
NOTIFICATION: Final = "pi-workflows.notification.v1"
RUN_STATE: Final = "pi-workflows.run-state.v1"
RUN_VIEW: Final = "pi-workflows.run-view.v1"
RUN_LIST_PAGE: Final = "pi-workflows.run-list-page.v1"
