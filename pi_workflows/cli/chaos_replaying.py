"""What `chaos replay`, `shrink` and `explain` do with a replay file."""

import contextlib
import pdb
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pi_workflows.chaos.debugging import stopping_where_it_breaks
from pi_workflows.chaos.discovery import ScenarioUnknown, find, hidden_module
from pi_workflows.chaos.mutations import MutationUnknown, planted_mutation
from pi_workflows.chaos.registry import engine
from pi_workflows.chaos.repeating import make_small
from pi_workflows.chaos.spreading import monotonic_s
from pi_workflows.chaos.versions import versions
from pi_workflows.cli import output
from pi_workflows.cli.chaos_running import width
from pi_workflows.cli.context import usage_problem
from pi_workflows.client.errors import ClientError
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from runtime.chaos.engine import Repeated
from runtime.chaos.outcome import Finding, Moment, ScenarioRefused, Verdict
from runtime.chaos.planting import PlantingRefused
from runtime.chaos.replay_file import ReplayFileRefused, read_replay_file
from runtime.chaos.report import WORD_OF_VERDICT, moment_json
from runtime.chaos.swim_lanes import swim_lanes
from runtime.chaos.wording import in_words


class _Loaded:
    """A replay file with its scenario and its engine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = read_replay_file(path)
        self.scenario = find(self.file.scenario, path.absolute().parent)
        self.engine = engine(self.file.engine)

    @contextmanager
    def planted(self) -> Generator[None]:
        """Plant the fault that the file names, if any, for the time of a block."""
        if self.file.mutation is None:
            yield
            return
        output.tell(f"with the mutation {self.file.mutation} in place")
        with planted_mutation(self.file.mutation):
            yield

    @contextmanager
    def exploring(self) -> Generator[None]:
        """As `planted`; what a scenario prints goes to standard error meanwhile."""
        with self.planted(), contextlib.redirect_stdout(sys.stderr):
            yield

    def repeat(self, until: int | None = None) -> Repeated:
        """Explore once, as the file says."""
        return self.engine.repeat(self.scenario, self.file.choices, self.file.seed, until)

    def finding(self) -> Finding:
        """Return what the file says was found; its timeline is not kept."""
        return Finding(
            scenario=self.scenario.name,
            engine=self.file.engine,
            promise=self.file.promise,
            complaint=self.file.complaint,
            choices=self.file.choices,
            seed=self.file.seed,
            timeline=(),
            digest=self.file.trace_sha256,
        )


def replay(path: Path, until: int | None, *, with_debugger: bool, as_json: bool) -> int:
    """Repeat a file, print what happened, and return the verdict as an exit code.

    Raises:
        ClientError: the file or its scenario is refused.
    """
    with _for_users():
        loaded = _Loaded(path)
        _warn(loaded)
        if with_debugger:
            loaded.scenario = stopping_where_it_breaks(
                loaded.scenario, lambda error: pdb.post_mortem(error.__traceback__)
            )
            with loaded.planted():
                repeated = loaded.repeat(until)
            is_same = True
        else:
            with loaded.exploring():
                repeated = loaded.repeat(until)
                is_same = loaded.repeat(until).digest == repeated.digest
    verdict = _verdict(repeated, is_same=is_same)
    if as_json:
        output.print_json(_replayed_json(loaded, repeated, verdict))
    else:
        lines = [_title(loaded, repeated.timeline), *_lanes(repeated.timeline)]
        if until is None:
            lines += [f"no longer comes up: {name}" for name in sorted(repeated.unused)]
        output.print_text("\n".join([*lines, "", _outcome(loaded, repeated, verdict, until)]))
    return int(verdict)


def shrink(path: Path, to: Path, budget_s: float, *, as_json: bool) -> int:
    """Make a file small, write it, and return the verdict as an exit code.

    Raises:
        ClientError: the file or its scenario is refused, or the result cannot be written.
    """
    with _for_users():
        loaded = _Loaded(path)
        _warn(loaded)
        with loaded.exploring():
            again = loaded.repeat()
            small = None
            if again.finding is not None:
                small = make_small(
                    loaded.engine, loaded.scenario, again.finding, budget_s, monotonic_s
                )
    if small is None or not small.comes_back:
        return _not_shrunk(loaded, _verdict(again, is_same=small is None), as_json=as_json)
    try:
        loaded.file.with_finding(small.finding).write(to)
    except OSError as error:
        raise usage_problem(f"{to} cannot be written: {error.strerror}") from error
    before, after = len(loaded.file.choices), len(small.finding.choices)
    if as_json:
        output.print_json(
            {
                "file": str(to),
                "before": before,
                "after": after,
                "runs": small.runs,
                "minimal": small.is_minimal,
            }
        )
    else:
        end = "none of them can be left out" if small.is_minimal else "the budget ended it there"
        output.print_text(
            f"unusual decisions: {after}, of {before}, after {small.runs} explorations; {end}"
        )
        output.print_text(f"written to {to}")
    return int(Verdict.VIOLATED)


def explain(path: Path, *, as_json: bool) -> None:
    """Print in words what a file holds, and draw it.

    Raises:
        ClientError: the file or its scenario is refused.
    """
    with _for_users():
        loaded = _Loaded(path)
        with loaded.exploring():
            repeated = loaded.repeat()
    words = in_words(loaded.file.choices, {moment.lane for moment in repeated.timeline})
    still = repeated.finding is not None
    if as_json:
        output.print_json(
            {
                "file": str(path),
                "scenario": loaded.file.scenario,
                "place": loaded.scenario.place,
                "summary": loaded.scenario.summary,
                "engine": loaded.file.engine,
                "promise": loaded.file.promise,
                "complaint": loaded.file.complaint,
                "seed": loaded.file.seed,
                "faults": list[JsonValue](words),
                "versions": dict(loaded.file.versions),
                "versionsDiffer": list[JsonValue](loaded.file.differences(versions())),
                "breaksNow": still,
                "timeline": [moment_json(moment) for moment in repeated.timeline],
            }
        )
        return
    lines = [
        f"scenario   {loaded.file.scenario}: {loaded.scenario.summary}",
        f"           {loaded.scenario.place}",
        f"engine     {loaded.file.engine}",
        f"promise    {loaded.file.promise}",
        f"complaint  {loaded.file.complaint}",
        f"written on {', '.join(f'{name} {it}' for name, it in loaded.file.versions.items())}",
    ]
    if loaded.file.seed is not None:
        lines.append(f"seed       {loaded.file.seed}; every other decision is drawn from it")
    lines.append("")
    if words:
        lines.append("unusual decisions, in the order in which they came up:")
    lines += [f"· {word}" for word in words] or ["no decision was unusual: it breaks by itself"]
    lines += ["", *_lanes(repeated.timeline), ""]
    lines.append("it still breaks" if still else "by now it holds")
    output.print_text("\n".join(lines))


@contextmanager
def _for_users() -> Iterator[None]:
    """Turn what is wrong with a file or a scenario into the error of a command."""
    try:
        yield
    except (ReplayFileRefused, ScenarioRefused, MutationUnknown, PlantingRefused) as refused:
        raise usage_problem(str(refused)) from refused
    except ScenarioUnknown as unknown:
        raise _unknown(unknown) from unknown
    except Exception as error:
        if (hidden := hidden_module(error)) is None:
            raise
        raise _unknown(hidden) from error


def _unknown(unknown: ScenarioUnknown) -> ClientError:
    return ClientError(
        str(unknown), code=ErrorCode.USAGE, exit_code=ExitCode.USAGE, detail=unknown.detail
    )


def _warn(loaded: _Loaded) -> None:
    for difference in loaded.file.differences(versions()):
        output.tell(f"another version than when it was written: {difference}")


def _verdict(repeated: Repeated, *, is_same: bool) -> Verdict:
    if not is_same:
        return Verdict.NOT_DETERMINISTIC
    return Verdict.HELD if repeated.finding is None else Verdict.VIOLATED


def _title(loaded: _Loaded, timeline: Sequence[Moment]) -> str:
    words = in_words(loaded.file.choices, {moment.lane for moment in timeline})
    title = f"{loaded.file.scenario} ({loaded.file.engine})"
    return "\n".join([title, *(f"· {word}" for word in words), ""])


def _lanes(timeline: Sequence[Moment]) -> list[str]:
    return swim_lanes(timeline, width())


def _outcome(loaded: _Loaded, repeated: Repeated, verdict: Verdict, until: int | None) -> str:
    if verdict is Verdict.NOT_DETERMINISTIC:
        return "✗ the same decisions led to another trace when they were repeated"
    if repeated.finding is not None:
        text = f"✗ breaks {repeated.finding.promise}: {repeated.finding.complaint}"
        changed = repeated.digest != loaded.file.trace_sha256
        return f"{text}\nby another trace than when the file was written" if changed else text
    if until is not None and len(repeated.timeline) >= until:
        return f"stopped after {until} moments; nothing was broken until then"
    return f"✓ holds; when the file was written it broke {loaded.file.promise}"


def _replayed_json(loaded: _Loaded, repeated: Repeated, verdict: Verdict) -> JsonObject:
    finding = repeated.finding
    return {
        "file": str(loaded.path),
        "scenario": loaded.file.scenario,
        "engine": loaded.file.engine,
        "verdict": WORD_OF_VERDICT[verdict],
        "exitCode": int(verdict),
        "promise": None if finding is None else finding.promise,
        "complaint": None if finding is None else finding.complaint,
        "sameTrace": repeated.digest == loaded.file.trace_sha256,
        "traceSha256": repeated.digest,
        "unused": list[JsonValue](sorted(repeated.unused)),
        "versionsDiffer": list[JsonValue](loaded.file.differences(versions())),
        "timeline": [moment_json(moment) for moment in repeated.timeline],
    }


def _not_shrunk(loaded: _Loaded, verdict: Verdict, *, as_json: bool) -> int:
    count = len(loaded.file.choices)
    if as_json:
        output.print_json(
            {
                "file": None,
                "before": count,
                "after": count,
                "runs": 2,
                "minimal": False,
            }
        )
    elif verdict is Verdict.HELD:
        output.print_text(f"✓ {loaded.path} breaks nothing by now; it was left as it is")
    else:
        output.print_text("✗ the same decisions led to another trace; the file was left as it is")
    return int(verdict)
