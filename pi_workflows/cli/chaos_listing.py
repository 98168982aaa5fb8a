"""The table of shipped scenarios."""

from pi_workflows.chaos.registry import SCENARIOS, engine_names
from pi_workflows.cli import output, render
from pi_workflows.protocol.canonical import JsonValue


def show_scenarios(*, as_json: bool) -> None:
    """Print every shipped scenario with the installed engines that it is made for."""
    installed = engine_names()
    if as_json:
        for scenario in SCENARIOS.values():
            output.print_json(
                {
                    "name": scenario.name,
                    "engines": list[JsonValue]([it for it in scenario.engines if it in installed]),
                    "promises": list[JsonValue](scenario.promises),
                    "core": scenario.core,
                    "summary": scenario.summary,
                    "place": scenario.place,
                }
            )
        return
    rows = [
        (
            scenario.name,
            " ".join(engine for engine in scenario.engines if engine in installed),
            " ".join(scenario.promises),
        )
        for scenario in SCENARIOS.values()
    ]
    header, *lines = render.table(("SCENARIO", "ENGINES", "PROMISES"), rows).split("\n")
    widest = max(map(len, [header, *lines]))
    summaries = [scenario.summary for scenario in SCENARIOS.values()]
    for line, what in zip([header, *lines], ["WHAT", *summaries], strict=True):
        output.print_text(f"{line:<{widest}}  {what}")
    output.tell("one of them: pi-workflows chaos run SCENARIO; all: pi-workflows chaos run --all")
