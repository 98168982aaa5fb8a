"""What the children of a simulated server run: runner, resolver, reader."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from actors.heavy_reads import READER_MODULE
from actors.resolver_child import RESOLVER_MODULE
from actors.runner_launch import RUNNER_MODULE
from pi_workflows.chaos.simulated_runner import Workplace, runner_program
from pi_workflows.chaos.simulated_sources import SimulatedSources
from pi_workflows.protocol.frames import encode_frame, parse_canonical
from pi_workflows.protocol.version import RESOLVE_LOADING
from pi_workflows.runner.entry import EXIT_CHANNEL_LOST, EXIT_DONE
from pi_workflows.runner.resolver import resolve
from runtime.line_stream import LineStream
from runtime.process import ChildSpec
from runtime.simulation.machine import SimulationBroken
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.spawner import ChildProgram
from runtime.simulation.streams import SimulatedStream
from store import host, offline_reads
from store.opening import open_reader
from store.transaction import Reading


def programs(
    workplace: Workplace, database: Path, read_s: float = 0.0
) -> Callable[[ChildSpec], tuple[str, ChildProgram]]:
    """Return who knows the name and the program of a child.

    Args:
        database: the real file.
        read_s: how long a reader holds a snapshot before it answers, in virtual time.
    """
    known: Final[dict[str, tuple[str, ChildProgram]]] = {
        RUNNER_MODULE: ("runner", runner_program(workplace)),
        RESOLVER_MODULE: ("resolver", _resolver(workplace.sources)),
        READER_MODULE: ("reader", _reader(database, read_s)),
    }

    def program_of(spec: ChildSpec) -> tuple[str, ChildProgram]:
        module = spec.module or spec.argv[spec.argv.index("-m") + 1]
        if module not in known:
            raise SimulationBroken(f"a simulation has no {module}")
        return known[module]

    return program_of


def _resolver(sources: SimulatedSources) -> ChildProgram:
    async def program(_: SimulatedProcess, stream: SimulatedStream, __: ChildSpec) -> int:
        lines = LineStream(stream)
        try:
            line = await lines.receive()
            if line is None:
                return EXIT_CHANNEL_LOST
            await lines.send(encode_frame({"outcome": RESOLVE_LOADING}))
            await lines.send(encode_frame(resolve(parse_canonical(line), sources=sources)))
        except trio.BrokenResourceError:
            return EXIT_CHANNEL_LOST
        return EXIT_DONE

    return program


def _reader(database: Path, read_s: float) -> ChildProgram:
    async def program(process: SimulatedProcess, stream: SimulatedStream, spec: ChildSpec) -> int:
        parser = argparse.ArgumentParser()
        parser.add_argument("question")
        parser.add_argument("--now", type=int)
        parser.add_argument("--run-id", default="")
        asked, _unused = parser.parse_known_args(spec.argv[spec.argv.index("-m") + 2 :])
        await _read_for(read_s, process, database)
        document = b""
        if asked.question == offline_reads.RUN_STATE:
            found, document = offline_reads.run_state(asked.run_id, database, asked.now)
        else:
            found = offline_reads.answer(asked.question, database, asked.now)
        try:
            await stream.send_all(encode_frame(found))
            await stream.send_all(document)
        except trio.BrokenResourceError:
            return EXIT_CHANNEL_LOST
        return EXIT_DONE

    return program


async def _read_for(read_s: float, process: SimulatedProcess, database: Path) -> None:
    """Hold a snapshot for so long, as a look at a large file does; a dead process holds none."""
    if read_s:
        reader = open_reader(database)
        let_go = process.hold(reader.connection.close)
        with reader.snapshot() as connection:
            host.current(Reading(connection, 0))  # A snapshot begins with its first query.
            await trio.sleep(read_s)
        let_go()
        reader.close()
