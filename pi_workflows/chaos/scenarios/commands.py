"""Requests whose answers get lost, that come twice or contradict each other, or that fail."""

from contextlib import suppress
from typing import Final

from pi_workflows.chaos.command_scenes import Noted, ask, cancelling, counted, noting, request
from pi_workflows.chaos.run_scenes import served
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.ids import resource_id
from pi_workflows.protocol.states import CommandOutcome, ResourceType
from runtime.chaos.outcome import PromiseBroken
from store.authority import holding
from store.chaos.failing_commands import FAILURES, Failure, fail_after_writing
from store.errors import StaleResourceError, UnknownResourceError
from store.receipts import Reply

DONE: Final = "request.done"


def _replies(look: Look) -> list[Reply]:
    return [known.result for known in look.acknowledged if isinstance(known.result, Reply)]


@scenario(promises=("P1", "P6"))
def asked_again(s: Scene) -> None:
    """A client whose answer is lost asks again, on another connection, under the same key.

    Case: A23, C18.
    """
    job, key = s.resource("job"), s.name("key")

    @s.actor(count=2)
    async def connection(me: Me) -> None:
        asked = request(f"{me.name}{key}", key, "do it")
        await ask(me, asked, counted(job, DONE, me.name)) or await ask(
            me, asked, counted(job, DONE, me.name)
        )

    s.faults(drop=1, duplicate=1)

    @s.always
    def done_once(look: Look) -> None:
        done = [event.resource_revision for event in look.events(job, DONE)]
        assert len(done) <= 1, "P6: a request that was repeated was carried out twice"
        for reply in _replies(look):
            assert reply.revision in done, "P1: a request was answered as done and is not"

    @s.finally_
    def answered(look: Look) -> None:
        assert look.events(job, DONE), "P6: a request that was repeated was never carried out"
        outcomes = [reply.outcome for reply in _replies(look)]
        adopted = outcomes.count(CommandOutcome.ADOPTED)
        assert len(outcomes) - adopted <= 1, "P6: a repetition was not told that it is one"
        assert set(outcomes) <= {CommandOutcome.ACCEPTED, CommandOutcome.ADOPTED}


@scenario(promises=("P6",))
def same_key_for_something_else(s: Scene) -> None:
    """Three requests say something else, two of each pair under one id or key: one is done.

    The second and the third share neither with each other, so both may be done if the first is
    not.

    Case: A23, C19, C20.
    """
    job, key, other = s.resource("job"), s.name("key"), s.name("other")

    @s.actor()
    async def first(me: Me) -> None:
        await ask(me, request(key, key, "do this"), counted(job, DONE, me.name))

    @s.actor()
    async def same_key(me: Me) -> None:
        await ask(me, request(other, key, "do that"), counted(job, DONE, me.name))

    @s.actor()
    async def same_id(me: Me) -> None:
        await ask(me, request(key, other, "do more"), counted(job, DONE, me.name))

    s.faults(drop=1, duplicate=1)

    @s.finally_
    def others_conflict(look: Look) -> None:
        done = [event.actor_id for event in look.events(job, DONE)]
        assert len(done) == len(set(done)), "P6: a request was carried out twice"
        assert done, "P6: of three requests none was done"
        both = "first" in done and len(done) > 1
        assert not both, f"P6: of contradicting requests these were done: {done}"
        for known in look.acknowledged:
            assert isinstance(known.result, Reply)
            outcome, is_done = known.result.outcome, known.actor in done
            good = outcome in {CommandOutcome.ACCEPTED, CommandOutcome.ADOPTED}
            assert good == is_done, f"P6: {known.actor} was answered {outcome}"
            assert good or outcome is CommandOutcome.CONFLICT, f"P6: no conflict but {outcome}"


@scenario(promises=("P6",))
def refused_again(s: Scene) -> None:
    """A refusal that was answered is repeated as it was, although it would succeed by now.

    Case: C22.
    """
    run_id = served(s).run.run_id
    key = s.name("key")

    @s.actor(count=2)
    async def connection(me: Me) -> None:
        asked = request(f"{me.name}{key}", key, "cancel it")
        await ask(me, asked, cancelling(run_id))
        await ask(me, asked, cancelling(run_id))

    s.faults(clock_jump=(31.0,), drop=1)

    @s.finally_
    def one_answer(look: Look) -> None:
        replies = _replies(look)
        refused = [reply for reply in replies if reply.outcome is CommandOutcome.CLAIM_LOST]
        assert len(refused) in {0, len(replies)}, "P6: a stored refusal was not repeated"
        assert all(reply == refused[0] for reply in refused), "P6: a refusal says something else"


@scenario(promises=("P2",))
def revisions(s: Scene) -> None:
    """Three clients change what they have seen; who has not seen the newest is refused.

    Case: A21.
    """
    job = s.resource("job")

    @s.actor(count=3)
    async def client(me: Me) -> None:
        seen = await me.read(lambda reading: holding(reading, job).revision)
        with suppress(StaleResourceError):
            await me.do(noting(job, DONE, seen), point="note")

    @s.finally_
    def seen_before_changed(look: Look) -> None:
        for known in look.acknowledged:
            noted = known.result
            assert isinstance(noted, Noted)
            assert noted.revision == noted.seen + 1, "P2: changed by one who had not seen it"
        assert len(look.events(job)) == len(look.acknowledged), "P2: a refusal left something"


@scenario(promises=("P2",))
def neighbours_of_a_failing_command(s: Scene) -> None:
    """A command fails after it has written, in one of four ways, beside others that do not."""
    jobs = [s.resource(f"job-{number}") for number in range(2)]
    taken = s.name("half")

    @s.actor(count=2)
    async def neighbour(me: Me) -> None:
        claim = await me.claim(jobs[me.number])
        assert claim is not None, "P2: a neighbour was refused"
        await me.write(claim, DONE)

    @s.actor()
    async def unlucky(me: Me) -> None:
        how = Failure(me.choose("fails by", *Failure))
        try:
            await me.do(lambda tx: fail_after_writing(tx, how, taken), point="fail")
        except FAILURES:
            return
        raise PromiseBroken("P2: a command that failed was answered as done")

    s.faults(shared_batch=2)

    @s.always
    def nothing_is_left(look: Look) -> None:
        try:
            holding(look.reading, resource_id(ResourceType.MAINTENANCE, taken))
        except UnknownResourceError:
            return
        raise PromiseBroken("P2: something is left of a command that failed")

    @s.finally_
    def neighbours_are_there(look: Look) -> None:
        for job in jobs:
            assert len(look.events(job, DONE)) == 1, "P2: a neighbour's command is gone"
