"""A lease as a cancel scope: nobody goes on working on what it no longer owns.

What it guarantees:

- losing the lease, by refusal, by expiry of the last *acknowledged* renewal, or because somebody
  ended it on purpose, cancels everything inside and leaves the block as `TenureLost` itself,
  never as a group of it;
- leaving the block releases the lease, shielded and bounded, unless it is lost or a commit inside
  the block has released it already;
- errors of the block leave it as themselves; cancellation from outside is never swallowed.

The scope is comfort, the row is authority: every protected write checks the lease again.
A class and not an async generator: a nursery inside a generator turns errors into groups.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, final

import trio

from runtime.errors import Refusal
from runtime.exception_groups import sole_error

RELEASE_S: Final = 5.0
"""How long leaving waits for the release to be stored; a missed one lapses by itself."""


class TenureLost(Refusal):
    """The lease is no longer held. A handoff, not a failure of the work.

    Attributes:
        reason: stable word: a claim-loss reason, `expired`, or what ended it on purpose.
    """

    code = "TENURE_LOST"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the tenure has ended: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a tenure keeps its lease.

    Attributes:
        renew: extends the lease; raises `TenureLost` when it is not ours any more.
        release: frees it; may raise `TenureLost`, which is ignored.
        lasts_s: from a renewal until expiry, in seconds.
        renew_every_s: backup timer; protected writes renew too and report it.
    """

    renew: Callable[[], Awaitable[object]]
    release: Callable[[], Awaitable[object]]
    lasts_s: float
    renew_every_s: float


@final
class Tenure:
    """Hold a lease that has just been claimed, for the time of an `async with` block."""

    def __init__(self, terms: Terms, *, claimed_at: float) -> None:
        """`claimed_at` is `trio.current_time()` from before the claim was sent."""
        self._terms = terms
        self._expires = claimed_at + terms.lasts_s
        self._lost: TenureLost | None = None
        self._is_released = False
        self._manager = trio.open_nursery()
        self._nursery: trio.Nursery | None = None

    @property
    def is_held(self) -> bool:
        """False once the lease is lost or released."""
        return self._lost is None and not self._is_released

    @property
    def is_lost(self) -> bool:
        """True once the lease went away by refusal, by expiry or by `end`, and not by a commit."""
        expired = trio.current_time() >= self._expires
        return not self._is_released and (self._lost is not None or expired)

    @property
    def is_released(self) -> bool:
        """True once a commit has freed the lease: there is nothing left to give back."""
        return self._is_released

    def extended(self, since: float) -> None:
        """Note that a write sent at `since` (trio time) was acknowledged: it renewed the lease."""
        self._expires = max(self._expires, since + self._terms.lasts_s)
        if self._nursery is not None and self._lost is None:
            self._nursery.cancel_scope.deadline = self._expires

    def released(self) -> None:
        """Note that a commit (end, wait, park) has freed the lease: nothing is left to release."""
        self._is_released = True
        if self._nursery is not None:
            self._nursery.cancel_scope.deadline = float("inf")

    def end(self, reason: str) -> None:
        """Cancel the block from outside: it leaves with `TenureLost(reason)`."""
        self._lose(TenureLost(reason))

    async def __aenter__(self) -> Self:
        """Start renewing."""
        self._nursery = await self._manager.__aenter__()
        scope = self._nursery.cancel_scope
        scope.deadline = float("inf") if self._is_released else self._expires
        if self._lost is not None:
            scope.cancel()
        self._nursery.start_soon(self._keep)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Stop renewing, release, and raise `TenureLost` if the lease went away meanwhile.

        Raises:
            TenureLost: the block was cut short because the lease was lost.
        """
        assert self._nursery is not None
        is_cancelled = error is not None and isinstance(sole_error(error), trio.Cancelled)
        expired = is_cancelled and trio.current_time() >= self._expires
        self._nursery.cancel_scope.cancel()
        left: BaseException | None = None
        try:
            await self._manager.__aexit__(kind, error, traceback)
        except BaseException as raised:  # noqa: BLE001 - unwrapped, and raised again below
            left = sole_error(raised)
        if expired and left is None and not self._is_released and self._lost is None:
            self._lost = TenureLost("expired")
        if self.is_held:
            with trio.move_on_after(RELEASE_S, shield=True):
                await self._release()
        return self._conclude(error, left)

    def _conclude(self, error: BaseException | None, left: BaseException | None) -> bool:
        """Raise what has to leave the block; return False to let the block's own error go on.

        Nothing left means that the block ended well or was cut short by this scope alone; a
        cancellation that is left came from outside and goes on, whatever became of the lease.
        """
        if left is None:
            if self._lost is not None:
                raise self._lost
            return True
        if left is error:
            return False
        raise left

    async def _keep(self) -> None:
        while True:
            await trio.sleep(self._terms.renew_every_s)
            if self._is_released:
                return
            sent = trio.current_time()
            try:
                await self._terms.renew()
            except TenureLost as lost:
                if not self._is_released:
                    self._lose(lost)
                return
            self.extended(sent)

    async def _release(self) -> None:
        try:
            await self._terms.release()
        except TenureLost:
            return

    def _lose(self, lost: TenureLost) -> None:
        if self._lost is None:
            self._lost = lost
            if self._nursery is not None:
                self._nursery.cancel_scope.cancel()
