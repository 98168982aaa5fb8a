"""What operators ask of effects: which are open, and what became of one that nobody knows of."""

from functools import partial
from typing import Annotated, Final, Literal, Self

from pydantic import Field, JsonValue, model_validator

from actors.client_requests import LIST_LIMIT_MAX, ClientRequest, Payload
from actors.services import CONTROL, Services
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import CommandOutcome
from store import effect_lists, receipts
from store.authority import Permit
from store.blobs import Blob
from store.effect_resolving import Resolution, Resolved, Verb, resolve_effect, source_of
from store.receipts import Reply
from store.transaction import Transaction

REASON_CHARS_MAX: Final = 2_048


class EffectList(Payload):
    """`effect.list`."""

    run_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    all: bool = False
    limit: Annotated[int, Field(ge=1, le=LIST_LIMIT_MAX)] = effect_lists.ITEMS_MAX
    cursor: Annotated[str, Field(max_length=512)] | None = None

    @model_validator(mode="after")
    def _one_run(self) -> Self:
        if self.all and self.run_id is None:
            raise ValueError("all effects are listed of one run; name it")
        return self


class EffectResolve(Payload):
    """`effect.resolve`; an output is only what an applied effect may have."""

    effect_id: Annotated[str, Field(min_length=1, max_length=256)]
    verb: Literal["applied", "rejected", "retry"]
    reason: Annotated[str, Field(min_length=1, max_length=REASON_CHARS_MAX, pattern=r"\S")]
    output: JsonValue = None

    @model_validator(mode="after")
    def _output_of_applied(self) -> Self:
        if "output" in self.model_fields_set and self.verb != "applied":
            raise ValueError("only an applied effect has an output")
        return self


class EffectControl:
    """The operator's verbs; each leaves its receipt in its commit."""

    def __init__(self, services: Services) -> None:
        self._services: Final = services

    def listed(self, payload: EffectList) -> JsonObject:
        """Return one page of effects.

        Raises:
            RunUnknownError: the run that is named does not exist.
            EffectCursorError: the cursor is no cursor of this list.
        """
        with self._services.readers.reading() as reading:
            return effect_lists.page(
                reading,
                run_id=payload.run_id,
                settled_too=payload.all,
                limit=payload.limit,
                cursor=payload.cursor,
            )

    async def resolve(self, request: ClientRequest, payload: EffectResolve) -> Reply:
        """Say what became of an ambiguous effect; its run goes on if it waited for that alone."""
        verb = Verb(payload.verb)
        output = Blob.of_json(payload.output) if verb is Verb.APPLIED else None
        resolution = Resolution(verb, payload.reason, output)
        action = partial(self._resolve, request.expected_revision, payload.effect_id, resolution)
        asked = request.stored_by(self._services.identity.epoch)
        return await self._services.store.do(receipts.receipted, asked, action)

    def _resolve(
        self,
        expected_revision: int | None,
        effect_id: str,
        resolution: Resolution,
        tx: Transaction,
    ) -> Reply:
        """Resolve under our own claim if the run is in hand here (README 20).

        It was resolved before then: the word is adopted, or told what stands.
        """
        source = source_of(tx, effect_id)
        claim = None if source is None else self._services.claims.claim_of(source)
        permit = Permit(CONTROL, claim, expected_revision)
        return _reply(resolution, resolve_effect(tx, permit, effect_id, resolution))


def _reply(resolution: Resolution, found: Resolved) -> Reply:
    outcome = CommandOutcome.ADOPTED if found.adopted else CommandOutcome.ACCEPTED
    receipt: JsonObject = {
        "effectId": found.effect_id,
        "runId": found.run_id,
        "verb": resolution.verb.value,
        "status": found.status.value,
        "runStatus": found.run_status.value,
        "goesOn": found.goes_on,
        "paused": found.paused,
    }
    return Reply(outcome, found.run_revision, receipt)
