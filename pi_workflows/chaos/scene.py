"""What a scenario declares on and acts through when its subject is our store.

@scenario(promises=("P3",))
def one_winner(s: Scene) -> None:
    job = s.resource("job")

    @s.actor(count=3)
    async def worker(me: Me) -> None:
        claim = await me.claim(job)
        if claim is not None:
            await me.write(claim, "work.done")

    s.faults(clock_jump=(31.0,), kill=1)

    @s.finally_
    def at_most_one(look: Look) -> None:
        assert len(look.events(job, "work.done")) <= 1
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast, final

from pi_workflows.chaos.promises import require_promises
from pi_workflows.protocol.ids import ResourceId, RunId, resource_id
from pi_workflows.protocol.states import OwnerType, ResourceType
from runtime.chaos.acting import Request, ask
from runtime.chaos.declaring import refuse, require_known
from runtime.chaos.outcome import Misused
from runtime.chaos.scenario import Handle, Plan, Scenario, scenario_of
from store import leases, resources
from store.authority import Claim
from store.errors import ClaimLostError, LeaseHeldError
from store.event_log import EventRow, events_of
from store.leases import Owner
from store.transaction import Reading, Transaction

ENGINES: Final = ("orders", "crash", "procs")
"""Which engines can explore what declares on a `Scene`."""

ResultT = TypeVar("ResultT")
Command = Callable[[Transaction], ResultT]
Query = Callable[[Reading], ResultT]


@dataclass(frozen=True, slots=True)
class StoreWork:
    """A store command as a request: one transaction, answered when it is durable.

    Attributes:
        generation: the lease it is done under, for reports; None without one.
    """

    command: Command[object]
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """A question to the store as a request: it sees one committed state and writes nothing."""

    query: Query[object]


@dataclass(frozen=True, slots=True)
class Sending:
    """Something that is done outside the store, and cannot be undone, as a request.

    Attributes:
        key: the stable key by which the outside could tell a repetition.
        generation: the lease it is done under; None without one.
    """

    target: str
    key: str
    generation: int | None


@dataclass(frozen=True, slots=True)
class Sent:
    """What has arrived outside.

    Attributes:
        accepted: False when the outside refused it as stale.
    """

    actor: str
    target: str
    key: str
    generation: int | None
    accepted: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A command whose answer reached the actor that asked.

    Attributes:
        point: the request's point.
        result: what the command returned; a refused one is not here.
    """

    actor: str
    point: str
    result: object


class Outcome(Exception):
    """Base of what an actor cannot know."""


class AnswerLost(Outcome):
    """The answer of a command was lost: it was carried out, or it was not."""


class Me(Handle):
    """What an actor has of the store."""

    async def do(
        self, command: Command[ResultT], *, point: str = "do", claim: Claim | None = None
    ) -> ResultT:
        """Run a store command in the next batch; return its result once it is durable.

        Args:
            point: a stable name, for orders, faults and reports.
            claim: under which it is done, for reports; None without one.

        Raises:
            Rejected: the command was refused; nothing of it was written.
            AnswerLost: whether it was carried out is unknown to this actor.
            Misused: what is given is no command.
        """
        if not callable(command):
            raise Misused(f"do takes a command, a function of a transaction, not {command!r}")
        generation = None if claim is None else claim.generation
        return cast("ResultT", await ask(Request(point, StoreWork(command, generation))))

    async def read(self, query: Query[ResultT], *, point: str = "read") -> ResultT:
        """Ask the store; the answer shows one committed state.

        Raises:
            Misused: what is given is no question.
        """
        if not callable(query):
            raise Misused(f"read takes a question, a function of a reading, not {query!r}")
        return cast("ResultT", await ask(Request(point, StoreQuery(query))))

    async def send(self, target: str, key: str, claim: Claim | None = None) -> bool:
        """Do something outside; False when the outside refused the generation as stale."""
        generation = None if claim is None else claim.generation
        return cast("bool", await ask(Request("send", Sending(target, key, generation))))

    async def claim(self, resource: ResourceId, *, owner_id: str | None = None) -> Claim | None:
        """Claim a resource for 30 s, as a server; None when somebody else has it.

        Args:
            owner_id: None means the actor's name.
        """
        owner = Owner(OwnerType.HOST, owner_id or self.name)
        permit = leases.host_permit(owner.owner_id)
        try:
            return await self.do(
                lambda tx: leases.claim(tx, permit, resource, owner), point="claim"
            )
        except LeaseHeldError:
            return None

    async def renew(self, claim: Claim) -> bool:
        """Renew a claim; False when it is lost.

        Raises:
            Misused: it is no claim.
        """
        _require_claim("renew", claim)
        return await self.unless_lost(
            lambda tx: leases.renew_claim(tx, claim), "renew", claim=claim
        )

    async def release(self, claim: Claim) -> bool:
        """Release a claim, live or lapsed; False when somebody else has it by now.

        Raises:
            Misused: it is no claim.
        """
        _require_claim("release", claim)
        return await self.unless_lost(lambda tx: leases.release(tx, claim), "release", claim=claim)

    async def write(self, claim: Claim, event: str) -> bool:
        """Record an event under a claim; False when it is lost.

        Raises:
            Misused: it is no claim.
        """
        _require_claim("write", claim)
        return await self.unless_lost(
            lambda tx: leases.write(tx, claim, event), "write", claim=claim
        )

    async def unless_lost(
        self, command: Command[object], point: str, *, claim: Claim | None = None
    ) -> bool:
        """Run a command that needs a claim; False when the claim is lost."""
        try:
            await self.do(command, point=point, claim=claim)
        except ClaimLostError:
            return False
        return True


def _require_claim(what: str, claim: object) -> None:
    if claim is None:
        raise Misused(f"{what} takes a claim, and this is None: somebody else has the resource")
    if inspect.iscoroutine(claim):
        claim.close()
        raise Misused(f"{what} takes a claim, and this is a call that was not awaited")
    if not isinstance(claim, Claim):
        raise Misused(f"{what} takes what `claim` has returned, not {claim!r}")


@final
class Look:
    """What an invariant is shown: one committed state, and what the actors know.

    Attributes:
        reading: for queries of the store.
        acknowledged: every command that was answered, in the order of the answers.
        sent: what arrived outside, in order.
    """

    def __init__(
        self, reading: Reading, acknowledged: list[Acknowledged], sent: list[Sent]
    ) -> None:
        self.reading: Final = reading
        self.acknowledged: Final = acknowledged
        self.sent: Final = sent

    def events(self, resource: ResourceId, event_type: str | None = None) -> list[EventRow]:
        """Return the events of a resource, in order; of one type if named."""
        return [
            event
            for event in events_of(self.reading, resource)
            if event_type in {None, event.event_type}
        ]


@dataclass(slots=True)
class Scene(Plan[Me, Look]):
    """What a scenario declares; what it prepares is there before any actor acts.

    Attributes:
        preparation: commands to carry out first, each in a transaction of its own.
        scope: appended to every name, so that explorations can share one database.
        is_first_start: there is no database yet; the start of the server makes one.
    """

    preparation: list[Command[object]] = field(default_factory=list)
    scope: str = ""
    is_first_start: bool = False

    def begin_without_database(self) -> None:
        """Let the server's first start be part of it; only the engine `crash` goes that way.

        Nothing can be prepared then.
        """
        self.is_first_start = True

    def prepare(self, command: Command[object]) -> None:
        """Have a store command carried out before the actors begin.

        Its result is nobody's: choose ids beforehand, with `name`.
        """
        self.preparation.append(command)

    def name(self, name: str) -> str:
        """Return a name that no other exploration uses."""
        return f"{name}{self.scope}"

    def run_id(self, name: str) -> RunId:
        """Return the id of a run that the scenario is going to create."""
        return RunId(self.name(name))

    def resource(self, name: str) -> ResourceId:
        """Prepare a free resource that can be leased."""
        key = self.name(name)
        self.prepare(lambda tx: resources.create(tx, ResourceType.MAINTENANCE, key))
        return resource_id(ResourceType.MAINTENANCE, key)


def scenario(
    *,
    promises: tuple[str, ...] = (),
    engines: tuple[str, ...] = ENGINES,
    core: bool = False,
) -> Callable[[Callable[[Scene], None]], Scenario[Scene]]:
    """Make a scenario of a function that declares on a `Scene`.

    Args:
        promises: which of `docs/guarantees.md` it holds the product to.
        engines: which engines can explore it; the first is the default.
        core: explore every order at each change.

    Raises:
        ScenarioRefused: there is no such promise or engine.
    """
    require_promises(promises)
    require_known("engine for a Scene", engines, ENGINES, "engines")
    if not engines:
        refuse(f"engines is empty; name one or more of {', '.join(ENGINES)}.")

    def declare(body: Callable[[Scene], None]) -> Scenario[Scene]:
        return scenario_of(body, promises=promises, engines=engines, core=core)

    return declare
