"""Where the server's time for one step goes: CPU of each stage, measured one by one.

CPU and not wall time, the best of some rounds: what others do on the machine shows least then.
The stages are those that a `run.advance` goes through; what they leave out of a real step is the
kernel's work to wake the child.
"""

import re
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from actors.runner_proposals import parse_advance
from bench.figures import Section
from bench.prepared_store import PreparedStore, Step, prepare_store
from bench.store_commands import GROUP, record, steps_of, through_actor
from pi_workflows.protocol.frames import encode_frame, parse_canonical
from runtime.line_stream import LineStream

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

_ATTEMPT: Final = "attempt-0b9c2f6e-6d1b-4f0e-9a55-1f2d3c4b5a69"
_PAYLOAD: Final["JsonObject"] = {
    "transitions": [
        {
            "type": "finishAttempt",
            "attemptId": _ATTEMPT,
            "nodeId": "step_3",
            "outcome": "ok",
            "output": {"step": 3, "run": "20261129T120000Z-chain-0b9c2f6e", "text": "x" * 120},
        },
        {
            "type": "startAttempt",
            "attemptId": _ATTEMPT,
            "nodeId": "step_4",
            "nodeType": "compute",
            "visit": 1,
            "startedAt": 1_764_417_600_000,
        },
    ]
}
_MESSAGE: Final = encode_frame(
    {
        "schema": "pi-workflows.runner-message.v1",
        "messageId": "m12",
        "operation": "run.advance",
        "runId": "20261129T120000Z-chain-0b9c2f6e",
        "generation": 1,
        "runnerEpoch": "runner-0b9c2f6e-6d1b-4f0e-9a55-1f2d3c4b5a69",
        "expectedRevision": 12,
        "payload": _PAYLOAD,
    }
)
_REPLY: Final["JsonObject"] = {
    "messageId": "m12",
    "outcome": "accepted",
    "revision": 14,
    "result": {"transitions": [{}, {}]},
}
_TABLE: Final = re.compile(r"(?:INTO|UPDATE|FROM)\s+(\w+)")


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """How much is measured.

    Attributes:
        rounds: the best of so many is shown.
        steps: of each of 64 runs, per round.
        messages: sent, parsed and encoded per round.
    """

    rounds: int
    steps: int
    messages: int


def measure_profile(folder: Path, plan: ProfilePlan) -> Section:
    """Measure every stage of a step in a database inside `folder`."""
    best: dict[str, float] = {}
    for number in range(plan.rounds):
        store = prepare_store(folder / f"profile-{number}", GROUP)
        try:
            found = {**_messages(plan.messages), **_commands(store, plan.steps)}
        finally:
            store.close()
        for name, us in found.items():
            best[name] = min(us, best.get(name, us))
    section = Section(
        "Profile of a step",
        "CPU per step by stage. `store_with_64_callers` includes `command` and its share of a"
        " COMMIT; `command` includes `sql`, which is the sum of `sql_...`.",
    )
    for name, us in best.items():
        section.add(f"profile_{name}", "us", [us])
    return section


def _messages(count: int) -> dict[str, float]:
    line = _MESSAGE[:-1]
    return {
        "socket_in_and_out": trio.run(_through_socket, count),
        "frame_parsed": _per_call(partial(parse_canonical, line), count),
        "message_validated": _per_call(partial(parse_advance, _PAYLOAD, _no_content), count),
        "reply_encoded": _per_call(partial(encode_frame, _REPLY), count),
    }


def _no_content(_: "JsonObject") -> NoReturn:
    raise AssertionError("nothing stands in the message by reference")


def _per_call(work: Callable[[], object], count: int) -> float:
    begun = time.thread_time()
    for _ in range(count):
        work()
    return (time.thread_time() - begun) / count * 1e6


async def _through_socket(count: int) -> float:
    """Return what one end pays for a message and its answer."""
    ours, theirs = (
        LineStream(trio.SocketStream(trio.socket.from_stdlib_socket(end)))
        for end in socket.socketpair()
    )

    async def answer() -> None:
        while (line := await theirs.receive()) is not None:
            await theirs.send(line + b"\n")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        begun = time.thread_time()
        for _ in range(count):
            await ours.send(_MESSAGE)
            await ours.receive()
        spent = time.thread_time() - begun
        await ours.aclose()
    await theirs.aclose()
    return spent / count / 2 * 1e6


def _commands(store: PreparedStore, each: int) -> dict[str, float]:
    store.settle()
    found = {f"sql_{name}": us for name, us in _statements(store, steps_of(store, GROUP, each))}
    store.settle()
    command, commit = _grouped(store, steps_of(store, GROUP, each))
    store.settle()
    steps = [[run.next_step() for _ in range(each)] for run in store.runs]
    begun = time.process_time()
    trio.run(partial(through_actor, store, steps, busy=False))
    actor = (time.process_time() - begun) / (GROUP * each) * 1e6
    return {
        "command": command,
        "commit_of_64": commit,
        "store_with_64_callers": actor,
        "sql": sum(found.values()),
        **found,
    }


def _grouped(store: PreparedStore, steps: list[Step]) -> tuple[float, float]:
    """Return what a command in a group of 64 costs, and its share of the COMMIT."""
    batch = store.batch
    run_s = commit_s = 0.0
    for first in range(0, len(steps), GROUP):
        batch.begin()
        begun = time.thread_time()
        for step in steps[first : first + GROUP]:
            batch.run_lightly(step)
        ran = time.thread_time()
        batch.commit()
        run_s += ran - begun
        commit_s += time.thread_time() - ran
    return run_s / len(steps) * 1e6, commit_s / len(steps) * 1e6


def _statements(store: PreparedStore, steps: list[Step]) -> Iterable[tuple[str, float]]:
    """Return each statement of a step by verb and table, with its cost in a bare loop.

    One statement of all commands is timed at a time: a clock around each would cost as much.
    """
    commands = record(store, steps)
    execute = store.writer.connection.execute
    spent: dict[str, float] = {}
    for first in range(0, len(commands), GROUP):
        execute("BEGIN IMMEDIATE")
        for position in zip(*commands[first : first + GROUP], strict=True):
            sql = position[0].sql
            table = _TABLE.search(sql)
            name = f"{sql.split()[0]}_{table[1] if table else ''}".lower()
            begun = time.thread_time()
            for statement in position:
                execute(sql, statement.values).fetchall()
            spent[name] = spent.get(name, 0.0) + time.thread_time() - begun
        execute("COMMIT")
    return ((name, total / len(commands) * 1e6) for name, total in spent.items())
