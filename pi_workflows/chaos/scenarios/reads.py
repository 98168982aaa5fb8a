"""Whoever reads changes nothing, in whatever state the writers have left the rows."""

from pi_workflows.chaos.effect_scenes import act, check_outbox, errand
from pi_workflows.chaos.read_paths import OF_THE_FILE, PATHS, changes_of
from pi_workflows.chaos.run_scenes import cancel
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from pi_workflows.protocol.states import RecoveryKind


@scenario(promises=("P2",))
def reads_write_nothing(s: Scene) -> None:
    """Every question is asked while a run acts and is cancelled; none of them writes a row.

    Case: A94.
    """
    going = errand(s, RecoveryKind.MANUAL)
    run = going.run.run_id

    @s.actor()
    async def runner(me: Me) -> None:
        await act(me, going, going.runner)

    @s.actor()
    async def operator(me: Me) -> None:
        await cancel(me, going.run, going.runner.claim)

    @s.actor()
    async def reader(me: Me) -> None:
        name = me.choose("reads", *PATHS)
        changed = await me.read(lambda reading: changes_of(PATHS[name], reading, run))
        assert changed == 0, f"P2: {name} has changed {changed} rows"
        if name not in OF_THE_FILE:
            await me.do(lambda tx: changes_of(PATHS[name], tx, run), point="read as a writer")

    s.faults(clock_jump=(31.0,))

    @s.always
    def outbox(look: Look) -> None:
        check_outbox(look, going)

    @s.finally_
    def no_row_changed(look: Look) -> None:
        asked = [known for known in look.acknowledged if known.point == "read as a writer"]
        assert all(known.result == 0 for known in asked), "P2: a question has changed rows"
