"""The settings of a try as the server tells them with its start, and again when it has to rerun.

A value crosses once per change: a runner that has it is told the number alone.
"""

from typing import cast

from pi_workflows.authoring.settings_copy import SettingsCopy
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.runner.history import Scope
from pi_workflows.runner.outgoing import Outgoing, Steps


class HeardSettings:
    """What one try has heard of its settings.

    Args:
        scope: of the try's workflow; remembers them for the tries that follow.
    """

    def __init__(self, scope: Scope, outgoing: Outgoing) -> None:
        self._scope = scope
        self._outgoing = outgoing
        self._told: JsonObject | None = None

    @property
    def known(self) -> int | None:
        """The change up to which the settings are known here; None when they are not."""
        copy = self._scope.settings
        return None if copy is None else copy.change_number

    def hear(self, reply: JsonObject) -> None:
        """Take the reply to what began, or ended, the try."""
        told = reply.get("settings")
        if isinstance(told, dict):
            self._told = told

    def copy(self) -> Steps[SettingsCopy[JsonValue] | None]:
        """Return the settings that the try runs with; None when its workflow declares none.

        Raises:
            LoopEnded: they could not be read.
        """
        told, self._told = self._told, None
        if told is not None and told.keys() & {"value", "valueContent"}:
            value = yield from self._outgoing.body(told, "value")
            self._scope.settings = SettingsCopy(
                cast("str", told["scopeId"]), cast("int", told["changeNumber"]), value
            )
        return self._scope.settings
