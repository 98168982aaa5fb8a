"""Whether a workflow's own code accepts a change of settings: asked of a child, as resolving is.

The server has authorised and applied the patch already. What is left is the author's: the model,
which must take the result as it is, and the check of the workflow.
"""

from typing import cast

from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.errors import AuthoringError
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.runner.author_errors import describe
from pi_workflows.runner.bounded_calls import within
from pi_workflows.runner.launch import SourceChanged, load_verified, parse_pinned
from pi_workflows.runner.messages import bounded_text
from pi_workflows.runner.sources import Sources


def check_settings(request: JsonObject, *, timeout_s: float, sources: Sources) -> JsonObject:
    """Answer a `pi-workflows.settings-check.v1`; foreign code runs on the way.

    Args:
        timeout_s: a check that takes longer is a refusal; it may go on running.

    Returns:
        `{"outcome":"accepted"}` or `{"outcome":"refused","code","message"}`.
    """
    try:
        pinned = parse_pinned(request)
        definition = load_verified(pinned, sources)
    except SourceChanged as changed:
        return _refused(f"the change cannot be checked: {changed}")
    except AuthoringError as error:
        return _refused(f"the change cannot be checked: [{error.code}] {error.message}")
    done, failed = within(timeout_s, lambda: _check(definition, request))
    if failed is None and not done:
        return _refused(f"the workflow's check of the change took longer than {timeout_s:g} s.")
    if isinstance(failed, AuthoringError):
        return _refused(failed.message)
    if failed is not None:
        told = describe(failed, pinned.root.path.parent)
        return _refused(f"the workflow's check refuses the change: {told}")
    return {"outcome": "accepted"}


def _check(definition: Definition, request: JsonObject) -> bool:
    mount = cast("str", request["mountPath"])
    workflow = definition.mounts[mount].child if mount else definition
    assert workflow.settings is not None, "the digest says that it declares settings"
    workflow.settings.check_change(
        request["before"],
        request["after"],
        cast("str", request["actor"]),
        cast("str", request["source"]),
        cast("list[JsonValue]", request["patch"]),
    )
    return True


def _refused(message: str) -> JsonObject:
    return {
        "outcome": "refused",
        "code": ErrorCode.SETTINGS_REJECTED.value,
        "message": bounded_text(message),
    }
