"""What a server costs that has nothing to do, and what each run adds: processor and memory.

Memory is the proportional set size: pages that processes share count for each in part.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.figures import Section
from bench.restart import Arrivals, start_runs, write_workflow
from bench.server_process import running_server
from pi_workflows.protocol.paths import StatePaths
from runtime.registry import read_registry

_TICK_MS: Final = 1000 / os.sysconf("SC_CLK_TCK")
_KIB_PER_MIB: Final = 1024
_PRIVATE: Final = ("Private_Clean", "Private_Dirty")


@dataclass(frozen=True, slots=True)
class FootprintPlan:
    """How much is measured.

    Attributes:
        idle_s: how long the idle server is watched.
        runs: how many runs wait in their node at once.
    """

    idle_s: float
    runs: int


def measure_footprint(folder: Path, plan: FootprintPlan) -> Section:
    """Measure on a new server whose home is `folder`."""
    section = Section(
        "Footprint",
        "Idle: no client, no run. Per run: a runner that waits in its node. MiB are of PSS.",
    )
    write_workflow(folder)
    with Arrivals.at(folder) as arrivals, running_server(folder, plan.runs) as paths:
        start_runs(folder, 1)  # One that is over: whatever comes with the first is there.
        arrivals.wait(1)
        arrivals.forget()
        server = _server(paths)
        templates = _registered(paths, "template-")
        time.sleep(1)
        _add_idle(section, [server, *templates], plan.idle_s)
        section.add("idle_server_memory", "MiB", [_memory_mib(server)])
        template_mib = sum(_memory_mib(pid) for one in templates for pid in _family(one))
        section.add("idle_template_memory", "MiB", [template_mib])
        start_runs(folder, plan.runs)
        arrivals.wait(plan.runs)
        runners = _registered(paths, "runner-")
        section.add("run_memory", "MiB", [_memory_mib(pid) for pid in runners])
        section.add("run_memory_private", "MiB", [_memory_mib(pid, *_PRIVATE) for pid in runners])
        section.add(f"server_memory_with_{plan.runs}_runs", "MiB", [_memory_mib(server)])
    return section


def _add_idle(section: Section, pids: list[int], idle_s: float) -> None:
    family = [member for pid in pids for member in _family(pid)]
    before_ms, began = sum(map(_cpu_ms, family)), time.monotonic()
    time.sleep(idle_s)
    spent_ms = sum(map(_cpu_ms, family)) - before_ms
    section.add("idle_cpu", "ms/s", [spent_ms / (time.monotonic() - began)])


def _server(paths: StatePaths) -> int:
    (template,) = _registered(paths, "template-")
    return _parent(template)


def _registered(paths: StatePaths, prefix: str) -> list[int]:
    found = read_registry(paths.registry)
    return [child.identity.pid for child in found if child.marker.startswith(prefix)]


def _family(pid: int) -> list[int]:
    """Return a template and its spares: children that are no runners yet."""
    return [pid, *(other for other in _pids() if _parent(other) == pid)]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _cpu_ms(pid: int) -> float:
    user, system = _stat(pid)[11:13]
    return (int(user) + int(system)) * _TICK_MS


def _stat(pid: int) -> list[str]:
    """Return the fields from the third on; of a process that is gone, zeros."""
    try:
        text = (Path("/proc") / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ["0"] * 50
    return text[text.rindex(")") + 2 :].split()


def _memory_mib(pid: int, *kinds: str) -> float:
    lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
    wanted = tuple(f"{kind}:" for kind in kinds or ("Pss",))
    return sum(int(line.split()[1]) for line in lines if line.startswith(wanted)) / _KIB_PER_MIB
