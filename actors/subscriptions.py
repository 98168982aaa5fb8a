"""What a client watches, and the event that shows it; equal views are sent once."""

from typing import Final, Protocol

from pi_workflows.protocol.canonical import JsonObject, canonical_bytes, digest_hex
from pi_workflows.protocol.states import ResourceType
from pi_workflows.protocol.version import CLIENT_PROTOCOL
from store import run_lists, run_views
from store.transaction import Change, Reading


class Subscription(Protocol):
    """One thing that a connection watches."""

    @property
    def subscription_id(self) -> str:
        """The client's own name for it."""
        ...

    def concerned(self, changes: frozenset[Change]) -> bool:
        """Say whether a commit may have changed the view."""
        ...

    def event(self, reading: Reading) -> JsonObject | None:
        """Return the event that brings the client up to date; None when it is."""
        ...


class RunSubscription:
    """The view of one run."""

    def __init__(self, subscription_id: str, run_id: str, known_revision: int | None) -> None:
        """`known_revision` is the presentation revision the client shows; None shows nothing."""
        self.subscription_id: Final = subscription_id
        self._run_id: Final = run_id
        self._change: Final = Change(ResourceType.RUN, run_id)
        self._sent_revision = known_revision

    def concerned(self, changes: frozenset[Change]) -> bool:
        """True when the run changed."""
        return self._change in changes

    def event(self, reading: Reading) -> JsonObject | None:
        """Return a `run_snapshot`; None when the client has this revision."""
        view = run_views.run_view(reading, self._run_id)
        revision = view["revision"]
        if revision == self._sent_revision:
            return None
        assert isinstance(revision, int)
        self._sent_revision = revision
        return {
            "schema": CLIENT_PROTOCOL,
            "type": "event",
            "subscriptionId": self.subscription_id,
            "event": "run_snapshot",
            "payload": view,
            "revision": revision,
            "runId": self._run_id,
        }


class RunsSubscription:
    """The newest runs."""

    def __init__(self, subscription_id: str, limit: int) -> None:
        self.subscription_id: Final = subscription_id
        self._limit: Final = limit
        self._sent_revision: str | None = None

    def concerned(self, changes: frozenset[Change]) -> bool:
        """True when any run changed."""
        return any(change.resource_type == ResourceType.RUN for change in changes)

    def event(self, reading: Reading) -> JsonObject | None:
        """Return a `runs` event; None when the list is what was sent last."""
        page = runs_page(reading, self._limit)
        revision = page["revision"]
        if revision == self._sent_revision:
            return None
        assert isinstance(revision, str)
        self._sent_revision = revision
        return {
            "schema": CLIENT_PROTOCOL,
            "type": "event",
            "subscriptionId": self.subscription_id,
            "event": "runs",
            "payload": page,
        }


def runs_page(reading: Reading, limit: int, cursor: str | None = None) -> JsonObject:
    """Return a page of the run list with its opaque list revision (a digest of its content)."""
    page = run_lists.page(reading, limit=limit, cursor=cursor)
    return {**page, "revision": digest_hex(canonical_bytes(page))[:32]}
