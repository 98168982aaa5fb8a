"""Notes what happens in explorations, to tell whether a fault makes any difference to them."""

import dataclasses
import hashlib
from typing import Any, Final, final

from pi_workflows.chaos.scene import Look, Scene
from runtime.chaos.scenario import Scenario
from store.event_log import every_event


@final
class Noted:
    """What the explorations of one scenario came to, all together."""

    def __init__(self) -> None:
        self._digest: Final = hashlib.sha256()

    def scenario(self, noted: Scenario[Any]) -> Scenario[Any]:
        """Return the scenario, with its end noted; it declares on a `Scene`."""

        def body(scene: Scene) -> None:
            noted.body(scene)
            scene.final_checks["noted"] = self._note

        return dataclasses.replace(noted, body=body)

    def digest(self) -> str:
        """Return a digest of every end so far, in order."""
        return self._digest.hexdigest()

    def _note(self, look: Look) -> None:
        for event in every_event(look.reading):
            what = (event.resource_id, event.event_type, event.lease_generation, event.recorded_at)
            self._digest.update(repr(what).encode())
        for known in look.acknowledged:
            self._digest.update(f"{known.actor} {known.point} {type(known.result)}".encode())
        for sent in look.sent:
            self._digest.update(repr(sent).encode())
        self._digest.update(b"end")
