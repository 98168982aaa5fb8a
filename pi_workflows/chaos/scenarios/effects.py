"""What is done outside, and what is known of it when whoever did it is gone."""

from typing import Final

from pi_workflows.chaos.courier import ACT
from pi_workflows.chaos.effect_scenes import act as go_and_act
from pi_workflows.chaos.effect_scenes import (
    acting,
    ambiguous,
    arrivals,
    check_outbox,
    errand,
    reserve,
    resolve,
    words,
)
from pi_workflows.chaos.run_looks import effect_row, queue_row, run_row
from pi_workflows.chaos.run_scenes import serve, take_over, tell
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.states import (
    EffectAttemptOutcome,
    EffectStatus,
    QueueStatus,
    RecoveryKind,
    RunStatus,
)
from store.effect_resolving import Resolved, Verb
from store.run_messages import Answered

LAPSED_S: Final = 31.0


@scenario(promises=("P1", "P2", "P5"))
def recorded_before_it_is_done(s: Scene) -> None:
    """A runner acts outside and dies anywhere: the try and its effect are there, or neither is.

    Case: A22, A45, D22.
    """
    going = errand(s, RecoveryKind.IDEMPOTENT)

    @s.actor()
    async def runner(me: Me) -> None:
        await go_and_act(me, going, going.runner)

    s.faults(kill=1)

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)

    @s.always
    def whole_messages(look: Look) -> None:
        effect = effect_row(look, going.run)
        started = len(look.events(going.run.resource, "node_started")) - 1
        tries = 0 if effect is None else effect.attempt_count
        assert started == tries, "P2: a try and its effect came in one message, and one is there"
        finished = len(look.events(going.run.resource, "node_finished")) - 1
        ended = run_row(look, going.run).terminal
        assert finished == int(ended), "P2: the last step and the end came in one message"

    @s.finally_
    def done_if_ended(look: Look) -> None:
        ended = run_row(look, going.run).terminal
        assert not ended or arrivals(look, going) == 1, "P5: a run ended whose mail is missing"


@scenario(promises=("P2", "P5"))
def hasty_runner(s: Scene) -> None:
    """A runner says too much: that it is done, before its effect is settled or begun.

    Case: D22.
    """
    going = errand(s, RecoveryKind.IDEMPOTENT)
    hasty = going.runner

    @s.actor()
    async def runner(me: Me) -> None:
        start = hasty.starts(ACT)
        done = hasty.finishes(start)
        await tell(me, hasty, start, done, hasty.completes())
        await tell(me, hasty, start, hasty.reserves(start), done)
        await go_and_act(me, going, hasty)

    @s.actor()
    async def successor(me: Me) -> None:
        for _ in range(3):
            await me.sleep(LAPSED_S)
            new = await take_over(me, going.run)
            if new is not None:
                await tell(me, new, new.starts(ACT), new.completes())
                await go_and_act(me, going, new)

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)

    @s.finally_
    def done_in_the_end(look: Look) -> None:
        assert run_row(look, going.run).status is RunStatus.COMPLETED, (
            "P2: a refusal left its half"
        )
        assert arrivals(look, going) >= 1, "P5: a run ended whose mail is missing"


def _told(look: Look, actor: str) -> list[Answered]:
    """Return what the messages were answered that an actor has passed on, oldest first."""
    told = [known.result for known in look.acknowledged if known.actor == actor]
    return [answer for answer in told if isinstance(answer, Answered)]


@scenario(promises=("P3", "P5"))
def harmless_effect_is_tried_again(s: Scene) -> None:
    """The runner of an idempotent effect dies or is late, and its successor tries again.

    Whoever takes the run over may send, or is told that it has arrived.
    """
    going = errand(s, RecoveryKind.IDEMPOTENT)

    @s.actor()
    async def runner(me: Me) -> None:
        await go_and_act(me, going, going.runner)

    @s.actor()
    async def successor(me: Me) -> None:
        await me.sleep(LAPSED_S)
        new = await take_over(me, going.run)
        if new is not None:
            await go_and_act(me, going, new)

    s.faults(kill=1, clock_jump=(LAPSED_S,))

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)

    @s.finally_
    def done(look: Look) -> None:
        effect = effect_row(look, going.run)
        if effect is not None and effect.status is EffectStatus.APPLIED:
            assert arrivals(look, going) >= 1, "P5: an effect is applied that never arrived"
        ambiguous_now = effect is not None and effect.status is EffectStatus.AMBIGUOUS
        assert not ambiguous_now, "P5: a harmless effect waits for a person"
        for answer in _told(look, "successor")[:1]:
            granted = answer.advanced and answer.advanced.grants[-1]
            assert granted, f"P5: a harmless effect was not tried again: {answer.error}"
            may_go_on = {EffectStatus.APPLYING, EffectStatus.APPLIED}
            assert granted.status in may_go_on, f"P5: an effect is {granted.status} at its try"


@scenario(promises=("P5",))
def looked_for_before_it_is_sent_again(s: Scene) -> None:
    """The runner of an observed effect dies: whoever comes next looks, and sends at most once."""
    going = errand(s, RecoveryKind.OBSERVE)

    @s.actor()
    async def runner(me: Me) -> None:
        await go_and_act(me, going, going.runner)

    @s.actor(count=2)
    async def successor(me: Me) -> None:
        await me.sleep(LAPSED_S)
        new = await take_over(me, going.run)
        if new is not None:
            await go_and_act(me, going, new)

    s.faults(kill=1)

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)
        assert arrivals(look, going) <= 1, "P5: what could be looked for was sent twice"


@scenario(promises=("P5",))
def never_done_twice_by_itself(s: Scene) -> None:
    """The runner of a manual effect dies: nobody tries again, and the run waits for a person."""
    going = errand(s, RecoveryKind.MANUAL)

    @s.actor()
    async def runner(me: Me) -> None:
        await go_and_act(me, going, going.runner)

    @s.actor(count=2)
    async def successor(me: Me) -> None:
        await me.sleep(LAPSED_S)
        new = await take_over(me, going.run)
        if new is not None:
            await go_and_act(me, going, new)

    s.faults(kill=1)

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)
        assert arrivals(look, going) <= 1, "P5: a manual effect was carried out twice"

    @s.finally_
    def nobody_guesses(look: Look) -> None:
        effect = effect_row(look, going.run)
        if effect is not None and effect.status is EffectStatus.AMBIGUOUS:
            assert run_row(look, going.run).status is RunStatus.WAITING, "P6: nobody was asked"


@scenario(promises=("P4", "P5"))
def stale_receipt(s: Scene) -> None:
    """The end of a first try is told when a second one is under way, by another runner or not."""
    going = acting(s, RecoveryKind.IDEMPOTENT)
    old = going.runner

    @s.actor()
    async def late(me: Me) -> None:
        await tell(me, old, old.settles(number=1), old.finishes(old.starts(ACT)))

    @s.actor()
    async def successor(me: Me) -> None:
        new = await take_over(me, going.run)
        if new is not None:
            await reserve(me, new)
            await tell(me, new, new.settles(EffectAttemptOutcome.REJECTED, number=1))
            await tell(me, new, new.settles(number=2), new.finishes(new.starts(ACT)))

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)
        effect = effect_row(look, going.run)
        assert effect is not None
        assert effect.status is not EffectStatus.REJECTED, "P4: an old try was settled"


@scenario(promises=("P2", "P6"))
def first_word_stands(s: Scene) -> None:
    """Four operators say what became of an effect, two of them the same."""
    going = ambiguous(s)
    said = (Verb.APPLIED, Verb.REJECTED, Verb.RETRY, Verb.APPLIED)

    @s.actor(count=len(said))
    async def operator(me: Me) -> None:
        await resolve(me, going.run, said[me.number])

    s.faults(drop=1)

    @s.always
    def one_word(look: Look) -> None:
        assert len(words(look, going.run)) <= 1, "P2: two words have moved one effect"
        check_outbox(look, going)

    @s.finally_
    def heard_once(look: Look) -> None:
        told = [known.result for known in look.acknowledged]
        first = [one for one in told if isinstance(one, Resolved) and not one.adopted]
        assert len(first) <= 1, "P6: two operators were told that they were first"
        assert len(words(look, going.run)) == 1, "P1: nobody's word was heard"
        assert queue_row(look, going.run).status is QueueStatus.QUEUED, "P8: the run is not due"


@scenario(promises=("P5", "P6"))
def resolved_against_the_runner(s: Scene) -> None:
    """Operators speak while the run is at its effect, waits for them, or has gone on."""
    going = acting(s, RecoveryKind.MANUAL)
    old = going.runner

    @s.actor()
    async def runner(me: Me) -> None:
        await tell(me, old, old.settles(EffectAttemptOutcome.AMBIGUOUS))
        new = await serve(me, going.run)
        if new is not None:
            await go_and_act(me, going, new)

    @s.actor()
    async def operator(me: Me) -> None:
        await resolve(me, going.run, Verb.RETRY) or await resolve(me, going.run, Verb.RETRY)

    @s.actor()
    async def colleague(me: Me) -> None:
        await resolve(me, going.run, Verb.APPLIED)

    s.faults(clock_jump=(LAPSED_S,))

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)
        assert len(words(look, going.run)) <= 1, "P2: two words have moved one effect"
        retried = "effect.retry_ready" in words(look, going.run)
        effect = effect_row(look, going.run)
        assert effect is not None
        assert effect.attempt_count <= 1 + int(retried), "P5: tried again on nobody's word"
