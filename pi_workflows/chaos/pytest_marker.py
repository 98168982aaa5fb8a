"""A pytest plugin: a test marked with `chaos` explores a scenario before its body runs.

    @pytest.mark.chaos(one_winner, engine="orders", orders="all")
    def test_there_is_one_winner() -> None:
        pass

Installed as an entry point, so it must cost nothing where no test is marked: everything but
pytest itself is imported by the first marked test.
"""

import difflib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from runtime.chaos.scenario import Scenario

MARKER: Final = "chaos"
FOLDER: Final = "chaos-failures"
"""Below pytest's root folder: replay files of what was broken."""

_SHRINK_S: Final = 30.0
_KNOWN: Final = frozenset({"engine", "orders", "seeds", "budget_s"})


class BlindSpot(UserWarning):
    """A scenario has a check or a fault that could not have made it fail."""


@dataclass(frozen=True, slots=True)
class Marked:
    """What a marker asks for.

    Attributes:
        engine: None is the first that the scenario is made for.
        is_all: every order there is.
        seeds: sample these; None leaves it to the engine.
        budget_s: wall time; one that ends too early fails the test. None is unbounded.
    """

    scenario: "Scenario[Any]"
    engine: str | None
    is_all: bool
    seeds: range | None
    budget_s: float | None


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "chaos(scenario, *, engine=None, orders=None, seeds=None, budget_s=None): explore a chaos"
        ' scenario before the test; orders="all" takes every order, seeds=200 or a range samples.',
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a marker that is written wrongly before any test runs."""
    for mark in item.iter_markers(MARKER):
        marked_by(mark.args, mark.kwargs, item.nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Explore what the markers of a test name, then let its body run."""
    for mark in pyfuncitem.iter_markers(MARKER):
        marked = marked_by(mark.args, mark.kwargs, pyfuncitem.nodeid)
        from pi_workflows.chaos.marked_exploration import explore  # noqa: PLC0415 - heavy

        result = explore(marked, pyfuncitem.config.rootpath / FOLDER, _SHRINK_S)
        pyfuncitem.add_report_section("call", "chaos", result.figures)
        for spot in result.blind_spots:
            pyfuncitem.warn(BlindSpot(spot))
        if result.complaint:
            pytest.fail(result.complaint, pytrace=False)
    return (yield)


def marked_by(arguments: tuple[object, ...], options: Mapping[str, object], test: str) -> Marked:
    """Return what a marker asks for.

    Raises:
        UsageError: it is written wrongly; the text names the test and the rule.
    """
    from runtime.chaos.scenario import Scenario  # noqa: PLC0415 - only for a marked test

    def wrong(rule: str) -> pytest.UsageError:
        return pytest.UsageError(f"{test}: @pytest.mark.chaos {rule}")

    if len(arguments) != 1 or not isinstance(arguments[0], Scenario):
        raise wrong("takes one scenario: a function that is decorated with @scenario")
    scenario = arguments[0]
    if unknown := sorted(options.keys() - _KNOWN):
        raise wrong(f"has no option {unknown[0]}; there are {', '.join(sorted(_KNOWN))}")
    engine = options.get("engine")
    if engine is not None and engine not in scenario.engines:
        close = difflib.get_close_matches(str(engine), scenario.engines, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        made_for = ", ".join(scenario.engines)
        raise wrong(f"{scenario.name} is made for {made_for}, not {engine!r}{meant}")
    budget_s = options.get("budget_s")
    if budget_s is not None and not (isinstance(budget_s, int | float) and budget_s > 0):
        raise wrong(f"budget_s is {budget_s!r}; it is a number of seconds above 0")
    seeds = _seeds_of(options.get("seeds"), wrong)
    orders = options.get("orders")
    if orders not in {None, "all"}:
        raise wrong(f'orders is {orders!r}; it is "all" or left out')
    if orders is not None and seeds is not None:
        raise wrong('takes orders="all" or seeds, not both: seeds are a sample')
    return Marked(scenario, engine, orders is not None, seeds, budget_s)


def _seeds_of(seeds: object, wrong: Callable[[str], pytest.UsageError]) -> range | None:
    """Return the range of a number of seeds, or of a range; None stays None."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        seeds = range(seeds)
    if seeds is None or (isinstance(seeds, range) and seeds):
        return seeds
    raise wrong(f"seeds is {seeds!r}; it is a number above 0 or a range")
