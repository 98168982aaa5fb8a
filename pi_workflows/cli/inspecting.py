"""Has workflow files looked at by children: their code never runs in the command itself.

The children are those that a server resolves starts in; no server is needed.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from actors.resolver_child import (
    RESOLVER_MODULE,
    NotResolved,
    RefusedWorkflow,
    ask_child,
)
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import encode_frame
from pi_workflows.protocol.version import INSPECT_REQUEST
from runtime.child_environment import child_environment
from runtime.errors import RuntimeFault
from runtime.exec_spawner import ExecSpawner
from runtime.process import ChildSpec, Spawner

AT_ONCE_MAX: Final = 4
ANSWER_S: Final = 5.0
"""How much later than its bound a child may still say where it is."""


@dataclass(frozen=True, slots=True)
class Place:
    """From where workflows are looked for.

    Attributes:
        project: absolute; also where the children run.
    """

    project: Path
    home: Path


def inspect_all(
    references: Sequence[str], place: Place, bound_s: float, tell: Callable[[JsonObject], None]
) -> None:
    """Look at several workflows, some at a time, and tell of each in the order given.

    Args:
        references: as for `run.start`.
        bound_s: longest time for each, in seconds.
        tell: is given an answer as `inspection.inspect_workflow` makes it, or one of the outcome
            `unknown`, with one problem, when nothing was found out.

    Raises:
        KeyboardInterrupt: the children have been ended.
        BaseException: from `tell`.
    """
    try:
        trio.run(_inspect_all, references, place, bound_s, tell)
    except BaseExceptionGroup as group:  # An interrupt, or what `tell` raised: a closed pipe.
        raise _single(group) from None


def _single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def inspect_one(reference: str, place: Place, bound_s: float) -> JsonObject:
    """Look at one workflow."""
    answers: list[JsonObject] = []
    inspect_all([reference], place, bound_s, answers.append)
    return answers[0]


async def _inspect_all(
    references: Sequence[str], place: Place, bound_s: float, tell: Callable[[JsonObject], None]
) -> None:
    limiter = trio.CapacityLimiter(AT_ONCE_MAX)
    answers: dict[int, JsonObject] = {}

    async def look(index: int, reference: str) -> None:
        async with limiter:
            answers[index] = await inspect(ExecSpawner(), reference, place, bound_s)
        while (following := len(told)) in answers:
            told.append(following)
            tell(answers[following])

    told: list[int] = []
    async with trio.open_nursery() as nursery:
        for index, reference in enumerate(references):
            nursery.start_soon(look, index, reference)


async def inspect(spawner: Spawner, reference: str, place: Place, bound_s: float) -> JsonObject:
    """Look at one workflow in a child of its own. Cancelled: the child is ended."""
    request: JsonObject = {
        "schema": INSPECT_REQUEST,
        "projectPath": str(place.project),
        "workflow": reference,
        "home": str(place.home),
        "boundMs": max(1, round(bound_s * 1000)),
    }
    spec = ChildSpec.of_module(
        RESOLVER_MODULE,
        cwd=str(place.project),
        env=child_environment(),
        marker=f"inspect-{uuid.uuid4()}",
    )
    try:
        child = await spawner.spawn(spec)
    except RuntimeFault as fault:
        return _problem("unknown", ErrorCode.RESOLVER_FAILED, str(fault), None)
    try:
        found = await ask_child(child, encode_frame(request), bound_s + ANSWER_S)
    finally:
        await child.stop()
    match found:
        case RefusedWorkflow(code, message, detail):
            return _problem("refused", code, message, detail)
        case NotResolved(message, detail):
            return _problem("unknown", ErrorCode.RESOLVER_FAILED, message, detail)
        case _:
            return found


def _problem(outcome: str, code: str, message: str, detail: str | None) -> JsonObject:
    answer: JsonObject = {
        "outcome": outcome,
        "problems": [{"code": str(code), "message": message}],
    }
    if detail is not None:
        answer["detail"] = detail
    return answer
