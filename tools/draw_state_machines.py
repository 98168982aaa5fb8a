"""Draws the tables of `store/machines` into docs/state-machines.md.

Run without arguments it writes the file; with `--check` it only says whether the file is as it
would be written, by its exit code. What a state means is the docstring of the machine's module:
one paragraph of names, at least two spaces, and a text that goes on in indented lines.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import store.machines
from store.machines.table import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

Table: TypeAlias = Machine[Any, Any]

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "state-machines.md"
INTRODUCTION: Final = """\
# State machines

Everything that moves in the database moves along one of these tables. A move that a table does
not have is refused with `TRANSITION_ILLEGAL` and nothing is written; a state without moves out is
final. Who may make a move, and on what proof, stands in `store/authority.py`; the commands that
make the moves stand in `store/run_*.py`, `store/effects.py` and `store/attempts.py`.

This page is drawn from `store/machines/` by `tools/draw_state_machines.py`; change the tables,
then run that again.
"""
PARAGRAPH: Final = re.compile(r"^(\S+(?:, \S+)*) {2,}(.*(?:\n +.*)*)$", re.MULTILINE)


def modules() -> Iterator[ModuleType]:
    """Yields the modules that hold a machine, by name."""
    for found in sorted(pkgutil.iter_modules(store.machines.__path__), key=lambda item: item.name):
        if found.name != "table":
            yield importlib.import_module(f"{store.machines.__name__}.{found.name}")


def machine_of(module: ModuleType) -> Table:
    """Returns the one machine of a module."""
    (machine,) = (value for value in vars(module).values() if isinstance(value, Machine))
    return machine


def meanings(module: ModuleType) -> list[tuple[list[str], str]]:
    """Returns what the docstring says of each state or group of states."""
    assert module.__doc__
    return [
        (names.split(", "), " ".join(text.split()))
        for names, text in PARAGRAPH.findall(module.__doc__)
    ]


def diagram(machine: Table) -> Iterator[str]:
    """Yields a Mermaid state diagram."""
    states = machine.states
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {states[0]}"
    for (state, move), target in machine.moves.items():
        yield f"    {state} --> {target}: {move}"
    for state in states:
        if not any(origin is state for origin, _ in machine.moves):
            yield f"    {state} --> [*]"
    yield "```"


def table(machine: Table) -> Iterator[str]:
    """Yields a row per state and a column per move; an empty cell is an illegal move."""
    moves = list(dict.fromkeys(move for _, move in machine.moves))
    yield "| from | " + " | ".join(f"`{move}`" for move in moves) + " |"
    yield "|---" * (len(moves) + 1) + "|"
    for state in machine.states:
        targets = [machine.moves.get((state, move)) for move in moves]
        cells = ["" if target is None else str(target) for target in targets]
        if any(cells):
            yield f"| **{state}** | " + " | ".join(cells) + " |"


def section(module: ModuleType) -> Iterator[str]:
    """Yields one machine: title, meaning of the states, diagram, table."""
    machine = machine_of(module)
    assert module.__doc__
    yield f"## {machine.name.capitalize()}"
    yield ""
    yield module.__doc__.partition("\n")[0]
    yield ""
    for names, text in meanings(module):
        yield f"- {', '.join(f'**{name}**' for name in names)}: {text}"
    yield ""
    yield from diagram(machine)
    yield ""
    yield from table(machine)


def draw() -> str:
    """Returns the whole page."""
    sections = ["\n".join(section(module)) for module in modules()]
    return "\n".join([INTRODUCTION, *(f"{text}\n" for text in sections)])


def main(arguments: list[str]) -> int:
    """Writes the page, or checks it; returns 1 when a checked page is stale, else 0."""
    page = draw()
    if arguments == ["--check"]:
        return int(not TARGET.is_file() or TARGET.read_text("utf-8") != page)
    TARGET.write_text(page, encoding="utf-8")
    print(f"wrote {TARGET.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
