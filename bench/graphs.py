"""Workflow files for the step benchmark, written as an author would write them."""

import itertools
from pathlib import Path
from typing import Final

_HEAD: Final = '''"""{count} compute nodes in a row{gated}."""

import time
from pathlib import Path

from pi_workflows import Ctx, Workflow

wf = Workflow("{name}", max_steps={max_steps})
FOLDER = Path(__file__).parent
'''
_GATE: Final = """

@wf.compute()
def gate(ctx: Ctx[None]) -> None:
    (FOLDER / f"{ctx.run_id}.waits").touch()
    while not (FOLDER / "open").exists():
        time.sleep(0.002)
"""
_NODE: Final = """

@wf.compute()
def {name}(ctx: Ctx[None]) -> dict[str, int | str]:
    return {{"step": {number}, "run": ctx.run_id, "text": "{text}"}}
"""
_TEXT: Final = "x" * 120


def write_chain(path: Path, count: int, *, gated: bool = False) -> None:
    """Write a workflow of `count` compute nodes in a row to `path`.

    Args:
        gated: one more node comes first; it touches `<run id>.waits` beside the file and waits
            there for a file `open`.
    """
    names = [f"step_{number}" for number in range(1, count + 1)]
    order = ["gate", *names] if gated else names
    text = _HEAD.format(
        count=count,
        gated=" behind a gate" if gated else "",
        name=path.name.removesuffix(".workflow.py"),
        max_steps=len(order),
    )
    if gated:
        text += _GATE
    for number, name in enumerate(names, 1):
        text += _NODE.format(name=name, number=number, text=_TEXT)
    text += "\n\n"
    for source, target in itertools.pairwise(order):
        text += f"wf.edge({source}, {target})\n"
    text += f"workflow = wf.build(start={order[0]})\n"
    path.write_text(text, encoding="utf-8")
