"""From the launch envelope to a definition that is proven to be the recorded one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.errors import AuthoringError
from pi_workflows.authoring.loading import load_file
from pi_workflows.protocol.canonical import JsonObject, digest_hex
from pi_workflows.protocol.version import RUNNER_LAUNCH, RUNNER_PROTOCOL_VERSION
from pi_workflows.runner.sources import DISK_SOURCES, Sources
from pi_workflows.runner.wire import Identity

SOURCE_CHANGED: Final = "workflowSourceChanged"
_WHAT_NEXT: Final = "Restore it and resume the run, or cancel the run."


class LaunchError(ValueError):
    """The server sent something that is no launch envelope of this version."""


class SourceChanged(Exception):
    """The workflow is not what was recorded when the run was made; nothing may run.

    The text names the file and both identities.
    """


@dataclass(frozen=True, slots=True)
class Launch:
    """What the server wants this child to run.

    Attributes:
        source_hash: SHA-256 of the file's bytes as 64 hexadecimal digits.
        definition_digest: SHA-256 of the canonical snapshot, the same form.
    """

    identity: Identity
    source_path: Path
    source_hash: str
    definition_digest: str


def parse_launch(frame: JsonObject) -> Launch:
    """Read the launch envelope.

    Raises:
        LaunchError: another schema or version, a missing field, or a source that is no file.
    """
    try:
        if frame["schema"] != RUNNER_LAUNCH or frame["protocolVersion"] != RUNNER_PROTOCOL_VERSION:
            raise LaunchError("the launch envelope has another schema or protocol version")
        source = cast("JsonObject", cast("JsonObject", frame["workflowSource"])["root"])
        if source["kind"] != "file":
            raise LaunchError(f"a {source['kind']} source cannot run here yet")
        return Launch(
            identity=Identity(
                cast("str", frame["runId"]),
                cast("int", frame["generation"]),
                cast("str", frame["runnerEpoch"]),
            ),
            source_path=Path(cast("str", source["path"])),
            source_hash=cast("str", source["hash"]),
            definition_digest=cast("str", frame["definitionDigest"]),
        )
    except (KeyError, TypeError) as error:
        raise LaunchError("the launch envelope is malformed") from error


def load_verified(launch: Launch, sources: Sources = DISK_SOURCES) -> Definition:
    """Check the source's hash, import exactly the checked bytes, check the definition's digest.

    Raises:
        SourceChanged: the file is gone or other than recorded, or gives another definition.
        AuthoringError: the recorded file no longer loads, because something else has changed.
    """
    path = launch.source_path
    try:
        source = sources.read(path)
    except OSError as error:
        raise SourceChanged(f"{path} cannot be read: {error.strerror}. {_WHAT_NEXT}") from error
    found = digest_hex(source)
    if found != launch.source_hash:
        raise SourceChanged(
            f"{path} has changed since the run was started (SHA-256 {launch.source_hash[:12]}…, "
            f"now {found[:12]}…). {_WHAT_NEXT}"
        )
    definition = load_file(path, source)
    digest = definition.digest()
    if digest != launch.definition_digest:
        raise SourceChanged(
            f"{path} is unchanged but builds another workflow than the run was started with "
            f"(digest {launch.definition_digest[:12]}…, now {digest[:12]}…); a module that it "
            f"imports has changed. {_WHAT_NEXT}"
        )
    return definition


def describe_load_error(error: AuthoringError) -> str:
    """Return why a workflow file did not load, with its code."""
    return f"[{error.code}] {error.message}"
