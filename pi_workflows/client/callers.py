"""What the methods of a client are made of: one call, whichever client makes it."""

from typing import Protocol

from pi_workflows.client.sans_io import Reply
from pi_workflows.protocol.canonical import JsonObject


class BlockingCaller(Protocol):
    """What carries one operation out and waits for its answer."""

    def call(
        self,
        operation: str,
        payload: JsonObject | None = None,
        *,
        run_id: str | None = None,
        expected_revision: int | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Carry one operation out and return the server's yes."""
        ...


class LiveCaller(Protocol):
    """The same in an async function."""

    async def call(
        self,
        operation: str,
        payload: JsonObject | None = None,
        *,
        run_id: str | None = None,
        expected_revision: int | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Carry one operation out and return the server's yes."""
        ...
