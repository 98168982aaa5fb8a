"""What `chaos mutate` does: plants one fault after the other and says which of them were found."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pi_workflows.chaos.discovery import ScenarioUnknown, find
from pi_workflows.chaos.mutating import Judged, MutationResult, mutate, mutate_scenario
from pi_workflows.chaos.mutation import Mutation
from pi_workflows.chaos.mutations import MUTATIONS
from pi_workflows.chaos.spreading import cores, monotonic_s
from pi_workflows.chaos.versions import versions
from pi_workflows.cli import entry, output, render
from pi_workflows.cli.chaos_running import width
from pi_workflows.cli.context import usage_problem
from pi_workflows.client.errors import ClientError
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from runtime.chaos.replay_file import ReplayFile
from runtime.chaos.report import WORD_OF_VERDICT, Failure
from runtime.chaos.report_text import failure_text
from runtime.chaos.scenario import Scenario

SHRINK_S: Final = 20.0
"""How long one finding may be made smaller."""

FRESH_MEDIAN_MAX: Final = 50
"""How many explorations a catch may take in the middle, with seeds that nobody has chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says.

    Attributes:
        names: of mutations, or of scenarios to try the general ones on; () is the catalogue.
        fresh_from: hunt with seeds from here on; None for the known places.
        failures: folder for a small replay file of each finding; None keeps none.
    """

    names: tuple[str, ...]
    jobs: int | None
    fresh_from: int | None
    failures: Path | None


def list_mutations(*, as_json: bool) -> None:
    """Print the catalogue."""
    if as_json:
        for mutation in MUTATIONS.values():
            output.print_json(_described(mutation))
        return
    rows = [
        (each.name, each.promise, f"{each.caught.scenario} ({each.caught.engine})")
        for each in MUTATIONS.values()
    ]
    table = render.table(("MUTATION", "PROMISE", "CAUGHT BY"), rows).split("\n")
    widest = max(map(len, table))
    said = ["WHAT IT BREAKS", *(each.breaks for each in MUTATIONS.values())]
    for line, what in zip(table, said, strict=True):
        output.print_text(f"{line:<{widest}}  {what}")
    output.tell("try one: pi-workflows chaos mutate MUTATION; all: pi-workflows chaos mutate")


def score(asked: Asked, *, as_json: bool) -> int:
    """Try what is asked for, print what was found, and return the verdict as an exit code.

    Raises:
        ClientError: a name is neither a mutation nor a scenario.
    """
    known = [name for name in asked.names if name in MUTATIONS]
    scenarios = [_scenario(name) for name in asked.names if name not in MUTATIONS]
    if scenarios and asked.fresh_from is not None:
        raise usage_problem("--fresh is for the catalogue; leave out the scenario")
    jobs, began = asked.jobs or cores(), monotonic_s()
    shrink_s = 0.0 if asked.failures is None and len(known) != 1 else SHRINK_S

    def report(judged: Judged) -> None:
        if not as_json:
            output.print_text(_line(judged))

    try:
        results = [mutate_scenario(each, jobs, report) for each in scenarios]
        if known or not scenarios:
            fresh = asked.fresh_from
            results.append(mutate(known, jobs, report, fresh_from=fresh, shrink_s=shrink_s))
    except KeyboardInterrupt:
        output.tell("\ninterrupted: every process has ended")
        return entry.INTERRUPTED
    median_max = None if asked.fresh_from is None else FRESH_MEDIAN_MAX
    result = MutationResult(tuple(each for one in results for each in one.judged), median_max)
    files = _kept(result, asked.failures)
    if as_json:
        output.print_json(_result_json(result, monotonic_s() - began))
    else:
        _tell(asked, result, files, monotonic_s() - began)
    return int(result.verdict)


def _scenario(name: str) -> Scenario[object]:
    try:
        scenario = find(name)
    except ScenarioUnknown as unknown:
        close = difflib.get_close_matches(name, MUTATIONS, n=1)
        meant = f"did you mean {close[0]}?" if close else "`pi-workflows chaos mutate --list`"
        text = f"{name} is no mutation ({meant}), and {unknown}"
        raise ClientError(
            text, code=ErrorCode.USAGE, exit_code=ExitCode.USAGE, detail=unknown.detail
        ) from unknown
    if not any(scenario.engines[0] in each.general for each in MUTATIONS.values()):
        raise usage_problem(
            f"no mutation is general enough for {name} by the engine {scenario.engines[0]}"
        )
    return scenario


def _line(judged: Judged) -> str:
    mutation, trial, told = judged.mutation, judged.trial, judged.told
    where = f"{trial.ref} ({trial.engine})"
    if told.finding is not None and told.is_caught:
        return (
            f"✓ {mutation.name}: breaks {told.finding.promise}, found by {where},"
            f" exploration {told.explored:,}, {told.seconds:.1f} s"
        )
    if told.is_idle:
        return f"- {mutation.name}: makes no difference to {where}"
    if told.error is not None:
        return f"✗ {mutation.name}: not found by {where}: {told.error}"
    line = f"✗ {mutation.name}: not found by {where} in {told.explored:,} explorations"
    if told.beside is None:
        return line
    return f"{line}; it was to break {trial.promise}, and broke {told.beside.promise}"


def _tell(asked: Asked, result: MutationResult, files: dict[str, Path], took_s: float) -> None:
    if len(asked.names) == 1 and len(result.judged) == 1 and result.judged[0].is_caught:
        judged = result.judged[0]
        finding = judged.told.finding
        assert finding is not None
        file = files.get(judged.mutation.name)
        command = "" if file is None else f"pi-workflows chaos replay {file}"
        failure = Failure(finding, command, judged.told.shrunk_from)
        output.print_text(f"\n{judged.mutation.breaks}\n\n{failure_text(failure, width())}\n")
    for survivor in result.survivors:
        output.print_text(f"✗ {survivor.mutation.name} survived: {survivor.mutation.breaks}")
    counted = len(result.caught) + len(result.survivors)
    median = "" if result.median is None else f", median {result.median:g} explorations"
    output.print_text(
        f"{len(result.caught)} of {counted} mutations found:"
        f" {result.score:.0%}{median}, {took_s:.0f} s"
    )
    if result.is_late:
        output.print_text(
            f"✗ the median is above {result.median_max:g}: the scenarios look too seldom"
        )


def _kept(result: MutationResult, folder: Path | None) -> dict[str, Path]:
    """Write a replay file of each finding; it names its mutation, and a replay plants it."""
    files: dict[str, Path] = {}
    for judged in [] if folder is None else result.caught:
        assert folder is not None
        assert judged.told.finding is not None
        file = ReplayFile.of(
            judged.told.finding, judged.trial.ref, versions(), judged.mutation.name
        )
        path = folder / f"mutation-{judged.mutation.name}.json"
        try:
            file.write(path)
        except OSError as error:
            raise usage_problem(f"{path} cannot be written: {error.strerror}") from error
        files[judged.mutation.name] = path
    return files


def _described(mutation: Mutation) -> JsonObject:
    return {
        "name": mutation.name,
        "promise": mutation.promise,
        "breaks": mutation.breaks,
        "scenario": mutation.caught.scenario,
        "engine": mutation.caught.engine,
        "places": list[JsonValue](sorted({change.place for change in mutation.changes})),
    }


def _result_json(result: MutationResult, took_s: float) -> JsonObject:
    return {
        "score": result.score,
        "median": result.median,
        "medianMax": result.median_max,
        "seconds": round(took_s, 1),
        "verdict": WORD_OF_VERDICT[result.verdict],
        "exitCode": int(result.verdict),
        "survivors": list[JsonValue]([each.mutation.name for each in result.survivors]),
        "mutations": [_judged_json(each) for each in result.judged],
    }


def _judged_json(judged: Judged) -> JsonObject:
    told = judged.told
    return {
        **_described(judged.mutation),
        "scenario": judged.trial.ref,
        "engine": judged.trial.engine,
        "found": told.is_caught,
        "makesNoDifference": told.is_idle,
        "explored": told.explored,
        "seconds": round(told.seconds, 2),
        "broke": None if told.finding is None else told.finding.promise,
        "complaint": None if told.finding is None else told.finding.complaint,
        "brokeInstead": None if told.beside is None else told.beside.promise,
        "error": told.error,
    }
