"""Commands of the chaos harness: `chaos list`, `run`, `replay`, `shrink`, `explain`, `mutate`.

What they need is imported when one of them is run: looking at the help costs none of it.
"""

from pathlib import Path
from typing import Final

import click

from pi_workflows.cli import chaos_options
from pi_workflows.cli.chaos_options import ReportTo
from pi_workflows.cli.context import debug_option, epilog, json_option, usage_problem

_NAMES: Final = ("orders", "crash", "procs", "sim")
_EVERY: Final = "all"
_REPLAY_FILE: Final = click.Path(path_type=Path)

_EPILOG: Final = """\b
Examples:
  pi-workflows chaos list
  pi-workflows chaos run --all --budget 5m
  pi-workflows chaos run test_leases.py::one_winner --all
  pi-workflows chaos replay chaos-failures/FILE.json

\b
Exit codes:
  0  everything held
  1  a promise was broken
  2  the same decisions led elsewhere when they were repeated; or usage
  3  the budget ended before what is promised was explored
"""


@click.group(epilog=_EPILOG)
def chaos() -> None:
    """Try to break scenarios, by every order and every fault.

    A scenario says who acts, what may go wrong and what must hold all the same. An engine explores
    it: `orders` and `procs` in every order of commands, `crash` with power cuts and failing disks,
    `sim` with everything simulated from a seed.
    """


@chaos.command(
    "list",
    epilog=epilog("pi-workflows chaos list", "pi-workflows chaos list --json | jq -r .name"),
)
@json_option("Print one scenario per line as JSON (JSON Lines).")
@debug_option
def list_scenarios(*, as_json: bool) -> None:
    """List the scenarios that ship, with their engines."""
    from pi_workflows.cli.chaos_listing import show_scenarios  # noqa: PLC0415 - heavy

    show_scenarios(as_json=as_json)


@chaos.command(
    epilog=epilog(
        "pi-workflows chaos run --all --budget 5m",
        "pi-workflows chaos run one_winner --engine procs",
        "pi-workflows chaos run mine.py::transfer --seeds 0:2000 --report junit:chaos.xml",
    )
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=chaos_options.scenarios)
@click.option(
    "--engine",
    "engines",
    type=chaos_options.EngineName([*_NAMES, _EVERY]),
    multiple=True,
    help="Explore with this one (again for more); else the first it is made for.",
)
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="Every order and every cut there is; without NAME, every shipped scenario.",
)
@click.option(
    "--seeds",
    metavar="A:B",
    callback=chaos_options.seeds,
    help="Sample these seeds: from A up to B, without B.",
)
@click.option(
    "--budget",
    "budget_s",
    metavar="SPAN",
    callback=chaos_options.span_s,
    help="Stop after this time: 90s, 5m, 3h.",
)
@click.option("--nightly", is_flag=True, help="Without NAME: what is promised for a night.")
@click.option(
    "--jobs", type=click.IntRange(1, 256), help="How many processes; one per core when unsaid."
)
@click.option(
    "--report",
    "reports",
    metavar="FORMAT[:FILE]",
    callback=chaos_options.reports,
    multiple=True,
    help="text, json or junit; with :FILE into a file. Again for more.",
)
@click.option(
    "--failures",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("chaos-failures"),
    show_default=True,
    help="Folder for the replay files of what was broken.",
)
@json_option("The same as --report json.")
@debug_option
def run(  # noqa: PLR0913 - one for each option
    *,
    names: tuple[str, ...],
    engines: tuple[str, ...],
    is_all: bool,
    seeds: range | None,
    budget_s: float | None,
    nightly: bool,
    jobs: int | None,
    reports: tuple[ReportTo, ...],
    failures: Path,
    as_json: bool,
) -> int:
    """Explore scenarios until something breaks or all is done.

    NAME is a shipped scenario, FILE::NAME one of your own, FILE all that it holds. Without NAME,
    every shipped scenario is explored by every engine up to what is promised for each change.

    What breaks is made small and kept as a replay file. Exit code 0 when everything held, 1 when
    a promise was broken, 2 when the same decisions led elsewhere, 3 when the budget ended before.
    """
    from pi_workflows.cli.chaos_running import Asked, explore  # noqa: PLC0415 - heavy

    if is_all and seeds is not None:
        raise usage_problem("--all and --seeds exclude each other: seeds are a sample")
    if nightly and names:
        raise usage_problem("--nightly is for every shipped scenario; leave out NAME")
    if not names and seeds is not None:
        raise usage_problem("--seeds needs a NAME: `pi-workflows chaos list` shows them")
    asked = Asked(
        names=names,
        engines=_NAMES if _EVERY in engines else engines,
        is_all=is_all,
        seeds=seeds,
        budget_s=budget_s,
        is_nightly=nightly,
        jobs=jobs,
        failures=failures,
    )
    return explore(asked, reports, as_json=as_json)


@chaos.command(
    epilog=epilog(
        "pi-workflows chaos replay chaos-failures/FILE.json",
        "pi-workflows chaos replay FILE.json --until 12",
    )
)
@click.argument("file", metavar="FILE", type=_REPLAY_FILE)
@click.option("--until", type=click.IntRange(min=1), help="Stop after so many moments.")
@click.option("--pdb", is_flag=True, help="Open the debugger where an invariant fails.")
@json_option("Print one document: verdict, finding, timeline.")
@debug_option
def replay(*, file: Path, until: int | None, pdb: bool, as_json: bool) -> int:
    """Repeat what a replay file holds, and draw it.

    It is repeated twice, and both must be the same. Exit code 0 when it holds now, 1 when it
    breaks a promise, 2 when it is not the same twice.
    """
    from pi_workflows.cli.chaos_replaying import replay as repeat  # noqa: PLC0415 - heavy

    if pdb and as_json:
        raise usage_problem("--pdb talks on the terminal; leave out --json")
    return repeat(file, until, with_debugger=pdb, as_json=as_json)


@chaos.command(
    epilog=epilog(
        "pi-workflows chaos shrink FILE.json",
        "pi-workflows chaos shrink FILE.json --output small.json --budget 10m",
    )
)
@click.argument("file", metavar="FILE", type=_REPLAY_FILE)
@click.option(
    "--output", type=_REPLAY_FILE, help="Write the smaller one there; else FILE is replaced."
)
@click.option(
    "--budget",
    "budget_s",
    metavar="SPAN",
    callback=chaos_options.span_s,
    default="60s",
    show_default=True,
    help="How long it may take: 90s, 5m.",
)
@json_option("Print {file, before, after, runs, minimal}.")
@debug_option
def shrink(*, file: Path, output: Path | None, budget_s: float, as_json: bool) -> int:
    """Leave out of a replay file what its break does not need.

    Exit code 1 when it still breaks, and the file is smaller or as small as can be; 0 when it
    holds by now, and 2 when it does not come back the same: then nothing is written.
    """
    from pi_workflows.cli.chaos_replaying import shrink as make_small  # noqa: PLC0415 - heavy

    return make_small(file, output or file, budget_s, as_json=as_json)


@chaos.command(epilog=epilog("pi-workflows chaos explain chaos-failures/FILE.json"))
@click.argument("file", metavar="FILE", type=_REPLAY_FILE)
@json_option("Print the explanation as one document.")
@debug_option
def explain(*, file: Path, as_json: bool) -> None:
    """Say in words what a replay file holds, and draw it.

    What broke when the file was written, by which decisions, on which versions, and what the
    scenario is about. Exit code 0 whether it still breaks or not: `replay` judges.
    """
    from pi_workflows.cli.chaos_replaying import explain as say  # noqa: PLC0415 - heavy

    say(file, as_json=as_json)


@chaos.command(
    epilog=epilog(
        "pi-workflows chaos mutate",
        "pi-workflows chaos mutate no_epoch_fence --failures chaos-failures",
        "pi-workflows chaos mutate test_leases.py::one_winner",
    )
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--list", "is_list", is_flag=True, help="Show the mutations and try none.")
@click.option(
    "--jobs", type=click.IntRange(1, 256), help="How many processes; one per core when unsaid."
)
@click.option(
    "--fresh",
    "fresh_from",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Hunt with new seeds from SEED on, not where a mutation is known to be found.",
)
@click.option(
    "--failures",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep a small replay file of each finding in this folder.",
)
@json_option("Print one document: score, survivors, one entry per mutation.")
@debug_option
def mutate(
    *,
    names: tuple[str, ...],
    is_list: bool,
    jobs: int | None,
    fresh_from: int | None,
    failures: Path | None,
    as_json: bool,
) -> int:
    """Plant faults, and see whether the scenarios find them.

    A harness that cannot fail proves nothing. NAME is a mutation of the product, or a scenario:
    FILE::NAME of your own gets the faults that any scenario could notice. Without NAME, every
    mutation is tried where it is known to be found.

    Exit code 0 when all were found, 1 when one has survived, 3 when a fresh hunt took too long.
    """
    from pi_workflows.cli import chaos_mutating  # noqa: PLC0415 - heavy

    if is_list:
        if names:
            raise usage_problem("--list shows all mutations; leave out NAME")
        chaos_mutating.list_mutations(as_json=as_json)
        return 0
    asked = chaos_mutating.Asked(names=names, jobs=jobs, fresh_from=fresh_from, failures=failures)
    return chaos_mutating.score(asked, as_json=as_json)
