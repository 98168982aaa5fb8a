"""Finds the shipped scenarios and the engines by name; each is imported when it is asked for."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, cast, final

from typing_extensions import override

from runtime.chaos.engine import Engine
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.scenario import Scenario

_FOLDER: Final = "pi_workflows.chaos.scenarios"

_ENGINES: Final = {
    "orders": "pi_workflows.chaos.orders_engine:OrdersEngine",
    "crash": "pi_workflows.chaos.crash_engine:CrashEngine",
    "procs": "pi_workflows.chaos.procs_engine:ProcsEngine",
    "sim": "pi_workflows.chaos.sim_engine:SimEngine",
}


@final
class _Shipped(Mapping[str, Scenario[Any]]):
    """Every shipped scenario by its name, in the order of modules and of definitions in them."""

    @cached_property
    def _found(self) -> dict[str, Scenario[Any]]:
        found: dict[str, Scenario[Any]] = {}
        package = importlib.import_module(_FOLDER)
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda it: it.name):
            for scenario in scenarios_in(
                vars(importlib.import_module(f"{_FOLDER}.{module.name}"))
            ):
                other = found.setdefault(scenario.name, scenario)
                assert other is scenario, f"{scenario.place} and {other.place} share a name"
        return found

    @override
    def __getitem__(self, name: str) -> Scenario[Any]:
        return self._found[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    @override
    def __len__(self) -> int:
        return len(self._found)


SCENARIOS: Final[Mapping[str, Scenario[Any]]] = _Shipped()
"""Every shipped scenario by its name; their modules are imported by the first look."""


def scenarios_in(namespace: Mapping[str, object]) -> list[Scenario[Any]]:
    """Return the scenarios that a module binds, each once, in the order of their definition."""
    found: list[Scenario[Any]] = []
    for value in namespace.values():
        if isinstance(value, Scenario) and value not in found:
            found.append(value)
    return found


def engine_names() -> tuple[str, ...]:
    """Return the names of the engines that are installed, in the order in which they are run."""
    return tuple(
        name
        for name, place in _ENGINES.items()
        if importlib.util.find_spec(place.partition(":")[0]) is not None
    )


def engine(name: str) -> Engine[Any]:
    """Return a fresh engine.

    Raises:
        ScenarioRefused: there is no engine of this name.
    """
    if name not in engine_names():
        raise ScenarioRefused(
            f'there is no engine "{name}"; there are: {", ".join(engine_names())}.'
        )
    module, _, class_name = _ENGINES[name].partition(":")
    return cast("Engine[Any]", getattr(importlib.import_module(module), class_name)())
