"""Starting children by a fork of a warm template, and by exec whenever that cannot be."""

from collections.abc import Callable
from typing import Final, final

import trio

from runtime.backoff import Backoff, Randomness
from runtime.errors import ProcessesSurvived, SpawnFailed
from runtime.exec_spawner import supervise
from runtime.log import Log
from runtime.process import Child, ChildSpec, Spawner
from runtime.program import Program
from runtime.registry import ProcessRegistry
from runtime.template_link import NotForkable, TemplateLink, TemplateLost
from runtime.template_program import start_template

STEADY_S: Final = 60.0
"""A template that has served for so long has not failed in a row with the one before it."""

BACKOFF: Final = Backoff(initial_ms=1_000, delay_ms_max=60_000)


@final
class TemplateSpawner:
    """Forks what a template can run, and starts all else by exec.

    Guarantees:

    - A spawn succeeds whenever it would by exec: a template that fails is ended, one line of the
      log says so, and the spawn goes on by exec. The next spawn starts a new template; when more
      than one has failed in a row, only after a growing pause.
    - Children of a template that has died are supervised like before; only how they ended nobody
      can learn any more.
    - A template is on disk among the children before it forks the first: a successor ends it.
    """

    def __init__(
        self,
        fallback: Spawner,
        registry: ProcessRegistry,
        log: Log,
        randomness: Randomness,
        *,
        start: Callable[[], Program] = start_template,
        backoff: Backoff = BACKOFF,
    ) -> None:
        """Have no template yet.

        Args:
            fallback: starts by exec.
            registry: where templates are remembered.
            randomness: spreads the pauses.
            start: starts a template.
            backoff: the pauses from the second failure in a row on.
        """
        self._fallback: Final = fallback
        self._registry: Final = registry
        self._log: Final = log
        self._randomness: Final = randomness
        self._start: Final = start
        self._backoff: Final = backoff
        self._link: TemplateLink | None = None
        self._began_at = 0.0
        self._failures = 0
        self._not_before = float("-inf")
        self._turn: Final = trio.Lock()

    async def begin(self, ahead: Program | None = None) -> None:
        """Have a template from now on, so that the first spawn finds it warm.

        Args:
            ahead: one that was started already; owned from now on. None: one is started.
        """
        async with self._turn:
            await self._begin(self._start if ahead is None else lambda: ahead)

    async def spawn(self, spec: ChildSpec) -> Child:
        """Start a child; see `Spawner.spawn`. Waits for a template that is still warming up."""
        if spec.module is not None:
            link = await self._current()
            if link is not None:
                try:
                    if spec.module in await link.modules():
                        return await link.fork(spec)
                except TemplateLost as lost:
                    await self._give_up(link, str(lost))
                except NotForkable as error:
                    self._log.warning("fork_impossible", error=str(error))
        return await self._fallback.spawn(spec)

    async def aclose(self) -> None:
        """End the template, and have none from now on; shielded and bounded.

        Children that it has forked are not ended, and how they end is not learned any more.
        """
        with trio.CancelScope(shield=True):
            async with self._turn:
                self._not_before = float("inf")
                if self._link is not None:
                    await self._link.leave()
                    await self._end(self._link)

    async def _current(self) -> TemplateLink | None:
        """Return the template, a new one if it has ended; None while it is too early for one."""
        async with self._turn:
            if self._link is not None and self._link.child.has_ended:
                await self._failed(self._link, "it has ended")
            if self._link is None and trio.current_time() >= self._not_before:
                await self._begin(self._start)
            return self._link

    async def _give_up(self, link: TemplateLink, why: str) -> None:
        """End a template that has failed, unless somebody else has done so; shielded."""
        with trio.CancelScope(shield=True):
            async with self._turn:
                if link is self._link:
                    await self._failed(link, why)

    async def _begin(self, start: Callable[[], Program]) -> None:
        try:
            program = start()
            child = supervise(program)
        except (OSError, SpawnFailed) as error:
            self._pause(f"it cannot be started: {error}")
            return
        self._link = TemplateLink(child)
        self._began_at = trio.current_time()
        try:
            self._registry.add(child.identity, program.marker)
        except OSError as error:
            await self._failed(self._link, f"it cannot be registered: {error}")
        else:
            self._log.info("template_started", pid=child.pid)

    async def _failed(self, link: TemplateLink, why: str) -> None:
        if trio.current_time() - self._began_at > STEADY_S:
            self._failures = 0
        await self._end(link)
        self._pause(why, link.child.output_tail())

    def _pause(self, why: str, last_words: str = "") -> None:
        pause_ms = 0
        if self._failures:
            pause_ms = self._backoff.delay_ms(self._failures, self._randomness)
        self._failures += 1
        self._not_before = trio.current_time() + pause_ms / 1000
        self._log.warning(
            "template_failed", error=why, lastWords=last_words, startsByExecForMs=pause_ms
        )

    async def _end(self, link: TemplateLink) -> None:
        """End its process; shielded, bounded."""
        self._link = None
        try:
            await link.child.stop(grace_s=0)
            self._registry.remove(link.child.identity)
        except (ProcessesSurvived, OSError) as error:
            self._log.error("template_not_ended", error=str(error))
        link.close()
