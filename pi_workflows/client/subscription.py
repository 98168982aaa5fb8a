"""One live view of the async client and the order of what it delivers."""

from typing import Final

import trio

from pi_workflows.client.messages import Event
from pi_workflows.protocol.canonical import JsonObject

EVENTS_BUFFERED: Final = 16
"""Events of one subscription that wait for their reader."""


class Subscription:
    """One live view; made by `LiveClient.watch`, the other methods are the client's.

    Args:
        operation: `view.run.watch` or `view.runs.watch`.
        run_id: the watched run, None for a list.
        payload: what goes beside `subscriptionId` and `revision`.
        subscription_id: the client's own name for it.

    Attributes:
        events: what the server pushes, and the library's own `unavailable` whose payload has a
            `reason`: `connection_lost` (the view is display only until the next event) or
            `reconnect_exhausted` (the last one). The channel ends when the client gives up or
            the subscription is unwatched.
        revision: last accepted presentation revision, None before the first.
        installed: the server has accepted it once, so it is restored after a loss.
    """

    def __init__(
        self, operation: str, run_id: str | None, payload: JsonObject, subscription_id: str
    ) -> None:
        self.operation = operation
        self.run_id = run_id
        self.subscription_id = subscription_id
        self.revision: int | None = None
        self.installed = False
        self.events: trio.MemoryReceiveChannel[Event]
        self._send, self.events = trio.open_memory_channel[Event](EVENTS_BUFFERED)
        self._payload = payload
        self._accepts_any_revision = True

    def request_payload(self) -> JsonObject:
        """Return the payload that installs it, or restores it from the last accepted revision."""
        payload: JsonObject = {**self._payload, "subscriptionId": self.subscription_id}
        if self.revision is not None:
            payload["revision"] = self.revision
        return payload

    def restore(self) -> None:
        """Accept whatever revision comes next: a restored state may even have a smaller one."""
        self._accepts_any_revision = True

    def deliver(self, event: Event) -> None:
        """Pass an event on without waiting, unless it is no newer than the last one.

        A full channel loses its oldest event: a newer snapshot replaces it anyway.
        """
        if event.revision is not None:
            if not self._accepts_any_revision and event.revision <= (self.revision or 0):
                return
            self.revision = event.revision
            self._accepts_any_revision = False
        while True:
            try:
                self._send.send_nowait(event)
            except trio.WouldBlock:
                self.events.receive_nowait()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return  # The reader has left.
            else:
                return

    def end(self) -> None:
        """End the channel after what it still holds; may be called again."""
        self._send.close()
