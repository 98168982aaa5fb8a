"""Why settings cannot be read or changed; all are `Rejected`: nothing was written."""

from collections.abc import Mapping
from typing import ClassVar

from pi_workflows.protocol.errors import ErrorCode
from store.errors import Rejected


class SettingsUnknownError(Rejected):
    """The run has no settings with this id, or none at all."""

    code: ClassVar[str] = ErrorCode.SETTINGS_UNKNOWN

    def __init__(self, run_id: str, scope_id: str | None) -> None:
        """`scope_id` is what was asked for; None asked for the run's own settings."""
        if scope_id is None:
            text = f"the workflow of {run_id} declares no settings of its own"
            more = "those of what it includes, if any"
        else:
            text = f"{run_id} has no settings {scope_id}"
            more = "the ids of those that it has"
        super().__init__(f"{text}; {more}: pi-workflows settings show {run_id}")


class SettingsStaleError(Rejected):
    """The settings are not at the change that the caller has seen."""

    code: ClassVar[str] = ErrorCode.SETTINGS_STALE
    wire_names: ClassVar[Mapping[str, str]] = {"expected": "expected", "found": "changeNumber"}

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"the settings are at change {found}, not {expected}; look again and decide anew"
        )
        self.expected = expected
        self.found = found


class SettingsBusyError(Rejected):
    """Others have changed the settings each time the change was about to be recorded."""

    code: ClassVar[str] = ErrorCode.SETTINGS_STALE

    def __init__(self, tries: int) -> None:
        super().__init__(
            f"others changed the settings {tries} times while this change was looked at; try again"
        )


class SettingsRefusedError(Rejected):
    """The rules, the model or the author's own check refuse the change."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # Each refusal brings the code of its reason.


class RunNotStartedError(Rejected):
    """The run is queued: its settings are what it is started with until it runs."""

    code: ClassVar[str] = ErrorCode.RUN_NOT_STARTED

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"{run_id} has not started yet: it is queued; change its settings once it runs"
        )


class SettingsMoved(Exception):
    """The settings moved between a look at a change and its commit: it is to be looked at again.

    No refusal: nothing is decided, and nothing was written.
    """
