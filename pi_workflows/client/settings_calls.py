"""What may be asked of the settings of a run, as methods of both clients."""

from collections.abc import Sequence
from typing import Final

from pi_workflows.client.callers import BlockingCaller, LiveCaller
from pi_workflows.client.sans_io import Reply
from pi_workflows.protocol.canonical import JsonObject, JsonValue


class BlockingSettingsCalls:
    """Settings of runs; see `docs/protocol.md` for the shapes."""

    def change_settings(
        self: BlockingCaller,
        run_id: str,
        patch: Sequence[JsonObject],
        *,
        scope_id: str | None = None,
        expected_change_number: int | None = None,
        source: str = "client",
        idempotency_key: str | None = None,
    ) -> Reply:
        """Change settings of a run that goes on, paused ones included.

        Nodes that start after it see the change; one at work keeps its copy.

        Args:
            run_id: the run.
            patch: 1 to 256 operations of RFC 6902, 64 KiB at most.
            scope_id: whose settings; None means the run's own.
            expected_change_number: refuse unless at this change; None takes the newest.
            source: where it comes from, a label of 1 to 128 characters.
            idempotency_key: None makes a fresh one; give the earlier one to repeat a change whose
                fate is unknown.

        Raises:
            Refused: `SETTINGS_DENIED`, `SETTINGS_PATCH_INVALID`, `SETTINGS_PATCH_FAILED`,
                `SETTINGS_REJECTED`, `SETTINGS_STALE`, `SETTINGS_UNKNOWN`, `RUN_NOT_STARTED`,
                `RUN_ENDED`, `RUN_UNKNOWN`; nothing was changed.
            ClientError: as `call`.
        """
        payload = _change(patch, scope_id, expected_change_number, source)
        return self.call(
            "run.changeSettings", payload, run_id=run_id, idempotency_key=idempotency_key
        )

    def settings(
        self: BlockingCaller, run_id: str, scope_id: str | None = None
    ) -> list[JsonObject]:
        """Return the settings of a run, oldest first; of one id only when it is given.

        Raises:
            Refused: `SETTINGS_UNKNOWN`, `RUN_UNKNOWN`.
            ClientError: as `call`.
        """
        pages = _Pages(scope_id, told="nextCursor", asked="cursor")
        while not pages.is_complete:
            pages.take(self.call("settings.show", pages.payload, run_id=run_id).receipt)
        return pages.items

    def settings_history(
        self: BlockingCaller, run_id: str, scope_id: str | None = None
    ) -> list[JsonObject]:
        """Return the changes of settings, oldest first; of the run's own when no id is given.

        Raises:
            Refused: `SETTINGS_UNKNOWN`, `RUN_UNKNOWN`.
            ClientError: as `call`.
        """
        pages = _Pages(scope_id, told="next", asked="after")
        while not pages.is_complete:
            pages.take(self.call("settings.history", pages.payload, run_id=run_id).receipt)
        return pages.items


class LiveSettingsCalls:
    """The same for the client of live views; a cancelled change may have been carried out."""

    async def change_settings(
        self: LiveCaller,
        run_id: str,
        patch: Sequence[JsonObject],
        *,
        scope_id: str | None = None,
        expected_change_number: int | None = None,
        source: str = "client",
        idempotency_key: str | None = None,
    ) -> Reply:
        """See `BlockingSettingsCalls.change_settings`."""
        payload = _change(patch, scope_id, expected_change_number, source)
        return await self.call(
            "run.changeSettings", payload, run_id=run_id, idempotency_key=idempotency_key
        )

    async def settings(
        self: LiveCaller, run_id: str, scope_id: str | None = None
    ) -> list[JsonObject]:
        """See `BlockingSettingsCalls.settings`."""
        pages = _Pages(scope_id, told="nextCursor", asked="cursor")
        while not pages.is_complete:
            pages.take((await self.call("settings.show", pages.payload, run_id=run_id)).receipt)
        return pages.items

    async def settings_history(
        self: LiveCaller, run_id: str, scope_id: str | None = None
    ) -> list[JsonObject]:
        """See `BlockingSettingsCalls.settings_history`."""
        pages = _Pages(scope_id, told="next", asked="after")
        while not pages.is_complete:
            pages.take((await self.call("settings.history", pages.payload, run_id=run_id)).receipt)
        return pages.items


def _change(
    patch: Sequence[JsonObject], scope_id: str | None, expected: int | None, source: str
) -> JsonObject:
    operations: list[JsonValue] = [*patch]
    payload: JsonObject = {**_scoped(scope_id), "patch": operations, "source": source}
    if expected is not None:
        payload["expectedChangeNumber"] = expected
    return payload


def _scoped(scope_id: str | None) -> JsonObject:
    return {} if scope_id is None else {"scopeId": scope_id}


class _Pages:
    """A list that is asked for page by page, whichever client asks.

    Attributes:
        payload: of the next request.
        items: of all pages so far.
        is_complete: whether there is no further page.
    """

    def __init__(self, scope_id: str | None, *, told: str, asked: str) -> None:
        self.payload: JsonObject = _scoped(scope_id)
        self.items: list[JsonObject] = []
        self.is_complete = False
        self._told: Final = told
        self._asked: Final = asked

    def take(self, page: JsonObject) -> None:
        """Add a page; where it ends says how the next one is asked for."""
        items = page.get("items")
        if isinstance(items, list):
            self.items += (item for item in items if isinstance(item, dict))
        following = page.get(self._told)
        self.is_complete = following is None
        self.payload = {**self.payload, self._asked: following}
