"""The motions of a runner that loads a workflow, gone through once ahead of time.

A forked process pays for each page that it writes to first; reference counts make it write to
nearly all that it reads. What is done here a spare has paid for before it is needed.
"""

import argparse
import threading
from threading import Event
from typing import Final

from pi_workflows.authoring.definition import Definition
from pi_workflows.protocol.frames import encode_frame, parse_canonical

_SOURCE: Final = """
from pydantic import BaseModel

from pi_workflows import Ctx, Workflow


class Order(BaseModel):
    name: str = ""
    lines: list[int] | None = None


wf = Workflow("warming", input=Order)


@wf.compute()
def first(ctx: Ctx[Order]) -> dict[str, int | str]:
    return {"name": ctx.input.name}


@wf.compute()
def second(ctx: Ctx[Order]) -> Order:
    return ctx.input


wf.edge(first, second)
workflow = wf.build(start=first)
"""


def exercise() -> None:
    """Load a workflow and all else that leaves nothing behind: no module, path, file or thread."""
    namespace: dict[str, object] = {"__name__": "warming", "__file__": "warming"}
    exec(compile(_SOURCE, "warming", "exec", dont_inherit=True), namespace)  # noqa: S102 - ours
    definition = namespace["workflow"]
    assert isinstance(definition, Definition)
    definition.digest()
    given = definition.accept_input({})
    parse_canonical(encode_frame({"input": given}).removesuffix(b"\n"))
    parser = argparse.ArgumentParser(prog="warming")
    parser.add_argument("--fd", type=int, required=True)
    parser.parse_args(["--fd", "0"])
    # Ended before it is left: only a process with one thread may become a child.
    thread = threading.Thread(target=Event)
    thread.start()
    thread.join()
