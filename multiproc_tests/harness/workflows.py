"""Workflow texts: three nodes, the second of which meets the test."""

from typing import Final

FIRST: Final = """
@wf.compute()
def first() -> str:
    note("first")
    return "one"

"""

THIRD: Final = """

@wf.compute()
def third(ctx: Ctx) -> str:
    note("third")
    return ctx.output(second) + " three"


wf.edge(first, second)
wf.edge(second, third)
workflow = wf.build(start=first)
"""

COMPUTING: Final = """
@wf.compute()
def second(ctx: Ctx) -> str:
    return meet("second", visit=ctx.visit)
"""

_EFFECT: Final = """
def told(ctx: Ctx) -> dict:
    effect = ctx.effect
    return {
        "visit": ctx.visit,
        "effectId": effect.effect_id,
        "key": effect.key,
        "attempt": effect.attempt_number,
    }


"""

ACTING: Final = f"""{_EFFECT}
@wf.action(effect=RECOVERY("second.done"))
def second(ctx: Ctx) -> str:
    return meet("second", **told(ctx))
"""

SHELLING: Final = f"""{_EFFECT}
def printed(result: ShellResult) -> str:
    return result.stdout.strip()


@wf.shell(effect=RECOVERY("second.done"), parse=printed)
def second(ctx: Ctx) -> Command:
    return Command(**shell_meeting("second", **told(ctx)))
"""

OBSERVED: Final = f"""{_EFFECT}
def look(ctx: Ctx):
    note(f"looked after try {{ctx.effect.attempt_number}}")
    done = FOLDER / "done"
    return applied(done.read_text()) if done.exists() else absent()


@wf.action(effect=observe("second.done", look))
def second(ctx: Ctx) -> str:
    (FOLDER / "done").write_text(meet("second", **told(ctx)))
    meet("sent", **told(ctx))
    return "second"
"""
"""Writes a file between two meetings, and looks for it."""

STEPS: Final = ["first 1", "second 1", "third 1"]
OUTPUT: Final = "second three"

SHORT: Final = """
@wf.compute()
def only() -> str:
    note("only")
    return "done"


workflow = wf.build(start=only)
"""
"""A workflow of one node that meets nobody."""

NOTING: Final = SHORT.replace("@wf.compute()", '@wf.action(effect=idempotent("note.taken"))')
"""The same with an effect."""


def three(second: str, *, recovery: str = "idempotent") -> str:
    """Return a workflow of three nodes with this text for the second one."""
    return FIRST + second.replace("RECOVERY", recovery) + THIRD
