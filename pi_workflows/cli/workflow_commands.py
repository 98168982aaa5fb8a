"""Commands about workflow files: `workflows list`, `show`, `check`, `graph`.

A workflow's code runs in children alone; no server is needed, and nothing is stored.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pi_workflows.cli import completion, output, workflow_pages
from pi_workflows.cli.context import debug_option, epilog, json_option, usage_problem, user_home
from pi_workflows.cli.run_input import reference_of
from pi_workflows.client.errors import ClientError
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.errors import ErrorCode, ExitCode

if TYPE_CHECKING:
    from pi_workflows.cli.inspecting import Place

_REFUSED: Final = "refused"
_project_option: Final = click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Folder where a NAME is looked up; default: this one.",
)
_timeout_option: Final = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    metavar="SECONDS",
    show_default=True,
    help="How long loading a file may take.",
)


@click.group(
    epilog=epilog(
        "pi-workflows workflows list",
        "pi-workflows workflows check report.workflow.py",
        "pi-workflows workflows graph report.workflow.py --mermaid",
    )
)
def workflows() -> None:
    """Look at workflow files without running them.

    A file is imported in a process of its own, which is ended afterwards; no node of it runs.
    """


@workflows.command("list", epilog=epilog("pi-workflows workflows list --json | jq -r .reference"))
@_project_option
@json_option("Print one workflow per line as JSON (JSON Lines).")
@debug_option
def list_workflows(*, project: Path, as_json: bool) -> None:
    """List the workflows that have a name here.

    Those of the project come first, then those of the user, then those that come with the package;
    the first of a name wins. No file is read.
    """
    from pi_workflows.authoring import discovery  # noqa: PLC0415 - brings pydantic

    found = discovery.list_workflows(project.resolve(), user_home())
    listed = [workflow_pages.named(workflow) for workflow in found]
    if as_json:
        for facts in listed:
            output.print_json(facts)
    else:
        output.print_text(workflow_pages.list_page(listed))


@workflows.command(
    epilog=epilog(
        "pi-workflows workflows show release_report.workflow.py",
        "pi-workflows workflows show builtin:monitor --json | jq .inputSchema",
    )
)
@click.argument("workflow", metavar="FILE|NAME", shell_complete=completion.workflows)
@_project_option
@_timeout_option
@json_option("Print one document: the definition, its sources, inputSchema, exits.")
@debug_option
def show(*, workflow: str, project: Path, timeout_s: float, as_json: bool) -> None:
    """Show what a workflow declares.

    Its input, nodes, exits, settings, what it includes, and by what a run would be held to it.
    """
    found = _found(workflow, project, timeout_s)
    if as_json:
        output.print_json({name: value for name, value in found.items() if name != "outcome"})
    else:
        output.print_text(workflow_pages.show_page(found))


@workflows.command(
    epilog=epilog(
        "pi-workflows workflows check report.workflow.py",
        "pi-workflows workflows check .pi/workflows/*.workflow.py",
        "pi-workflows workflows check report.workflow.py --json | jq .problems",
    )
)
@click.argument(
    "files", metavar="FILE|NAME...", nargs=-1, required=True, shell_complete=completion.workflows
)
@_project_option
@_timeout_option
@json_option("Print one document per file and line: file, ok, problems or workflowName.")
@click.option("--debug", is_flag=True, help="Show the traceback behind an error.")
def check(
    *, files: tuple[str, ...], project: Path, timeout_s: float, as_json: bool, debug: bool
) -> int:
    """Check workflow files and all they include.

    Prints every problem of every file, with the line. Exit code 0 when all files are sound, 2 when
    one is refused, 1 when nothing could be found out about one: it loads for too long, say.
    """
    from pi_workflows.cli.inspecting import inspect_all  # noqa: PLC0415 - brings trio

    outcomes: list[str] = []

    def tell(answer: JsonObject) -> None:
        file = files[len(outcomes)]
        outcomes.append(str(answer["outcome"]))
        if as_json:
            output.print_json(workflow_pages.checked(file, answer))
        else:
            output.print_text(workflow_pages.check_page(file, answer))
            if debug and isinstance(detail := answer.get("detail"), str):
                output.tell(detail)

    inspect_all([*map(reference_of, files)], _place(project), timeout_s, tell)
    if not as_json and len(files) > 1:
        output.tell(f"{outcomes.count('resolved')} of {len(files)} workflows are sound")
    if _REFUSED in outcomes:
        return ExitCode.USAGE
    return ExitCode.OK if set(outcomes) == {"resolved"} else ExitCode.FAILED


@workflows.command(
    epilog=epilog(
        "pi-workflows workflows graph report.workflow.py",
        "pi-workflows workflows graph report.workflow.py --dot | dot -Tsvg > report.svg",
    )
)
@click.argument("workflow", metavar="FILE|NAME", shell_complete=completion.workflows)
@click.option("--mermaid", is_flag=True, help="Print source for Mermaid.")
@click.option("--dot", is_flag=True, help="Print source for Graphviz.")
@_project_option
@_timeout_option
@json_option("Print one document: the definition's snapshot.")
@debug_option
def graph(
    *,
    workflow: str,
    mermaid: bool,
    dot: bool,
    project: Path,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Draw the graph of a workflow with all it includes.

    As text each node has the ways out of it below; what is included is indented.
    """
    from pi_workflows.cli import graph as drawing  # noqa: PLC0415 - for this command only

    if mermaid + dot + as_json > 1:
        raise usage_problem("give one of --mermaid, --dot and --json, not several")
    found = _found(workflow, project, timeout_s)
    snapshot = found["definitionSnapshot"]
    assert isinstance(snapshot, dict)
    if as_json:
        output.print_json(snapshot)
        return
    draw = drawing.draw_text
    if mermaid or dot:
        draw = drawing.draw_mermaid if mermaid else drawing.draw_dot
    output.print_text(draw(DefinitionSnapshot.parse(snapshot)))


def _place(project: Path) -> "Place":
    from pi_workflows.cli.inspecting import Place  # noqa: PLC0415 - brings trio

    return Place(project.resolve(), user_home())


def _found(workflow: str, project: Path, timeout_s: float) -> JsonObject:
    """Return what a sound workflow declares.

    Raises:
        ClientError: with all its problems, or why nothing was found out.
    """
    from pi_workflows.cli.inspecting import inspect_one  # noqa: PLC0415 - brings trio

    answer = inspect_one(reference_of(workflow), _place(project), timeout_s)
    if answer["outcome"] == "resolved":
        return answer
    problems = workflow_pages.problems_of(answer)
    refused = answer["outcome"] == _REFUSED
    detail = answer.get("detail")
    raise ClientError(
        "\n".join(workflow_pages.problem_text(problem) for problem in problems),
        code=str(problems[0].get("code", ErrorCode.SOURCE_FAILED)),
        exit_code=ExitCode.USAGE if refused else ExitCode.FAILED,
        detail=detail if isinstance(detail, str) else None,
    )
