"""What a workflow declares, or everything that is wrong with it; no node of it is run.

Answers `pi-workflows.inspect-request.v1`, in the same child that resolves starts.
"""

from pathlib import Path
from typing import cast

from pi_workflows.authoring.codec import ANY_JSON
from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.errors import (
    AuthoringError,
    DefinitionError,
    LoadError,
    Location,
    Problem,
)
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.runner.author_errors import describe
from pi_workflows.runner.messages import bounded_text
from pi_workflows.runner.sources import DISK_SOURCES, Sources
from pi_workflows.runner.whole import load_whole


def inspect_workflow(request: JsonObject, *, sources: Sources = DISK_SOURCES) -> JsonObject:
    """Turn an inspect request into its answer; foreign code runs on the way.

    Returns:
        `{"outcome":"resolved",…}` with definition and sources, or `{"outcome":"refused",
        "problems":[{code, message, subject?, fix?, file?, line?}], "detail"?}`, where `detail` is
        the author's part of a traceback.
    """
    try:
        whole = load_whole(request, sources)
        return {"outcome": "resolved", **whole.described(), **_declared(whole.definition)}
    except DefinitionError as wrong:
        return _refused([_problem(problem) for problem in wrong.problems], wrong.detail)
    except LoadError as failed:
        return _refused([_load_problem(failed)], failed.detail)
    except AuthoringError as refused:
        return _refused([{"code": str(refused.code), "message": bounded_text(refused.message)}])
    except BaseException as error:  # noqa: BLE001 - foreign code; the answer must say so
        message = describe(error, None)
        return _refused([{"code": str(ErrorCode.SOURCE_FAILED), "message": message}])


def _declared(definition: Definition) -> JsonObject:
    """Return what the snapshot does not say."""
    exits: JsonObject = {name: exit_.source for name, exit_ in sorted(definition.exits.items())}
    declared: JsonObject = {"exits": exits}
    if definition.input_codec is not ANY_JSON:
        declared["inputSchema"] = definition.input_codec.schema()
    if definition.settings is not None:
        declared["settingsSchema"] = definition.settings.codec.schema()
    title = definition.title
    if title is not None:
        declared["title"] = title if isinstance(title, str) else None
    return declared


def _refused(problems: list[JsonObject], detail: str | None = None) -> JsonObject:
    answer: JsonObject = {"outcome": "refused", "problems": cast("list[JsonValue]", problems)}
    if detail is not None:
        answer["detail"] = bounded_text(detail)
    return answer


def _problem(found: Problem) -> JsonObject:
    told: JsonObject = {
        "code": str(found.code),
        "subject": found.subject,
        "message": bounded_text(found.message),
    }
    if found.fix is not None:
        told["fix"] = found.fix
    return told | _place(found.location)


def _load_problem(failed: LoadError) -> JsonObject:
    """Return why a file does not load, its place apart from the text."""
    place = None if failed.line is None else Location(failed.file, failed.line)
    message = failed.message if place is None else failed.message.removeprefix(f"{place.short}: ")
    told: JsonObject = {"code": str(failed.code), "message": bounded_text(message)}
    return told | (_place(place) or {"file": failed.file})


def _place(location: Location | None) -> JsonObject:
    if location is None:
        return {}
    return {"file": str(Path(location.file).absolute()), "line": location.line}
