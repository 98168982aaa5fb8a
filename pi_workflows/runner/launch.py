"""From the launch envelope to a definition that is proven to be the recorded one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.errors import AuthoringError
from pi_workflows.authoring.loading import load_file
from pi_workflows.protocol.builtins import BUILTINS, identity_of
from pi_workflows.protocol.canonical import JsonObject, digest_hex
from pi_workflows.protocol.sources import BUILTIN_PREFIX, SourceIdentity, SourceKind
from pi_workflows.protocol.version import RUNNER_LAUNCH, RUNNER_PROTOCOL_VERSION
from pi_workflows.runner.children import PinnedChildren
from pi_workflows.runner.sources import DISK_SOURCES, Sources
from pi_workflows.runner.wire import Identity

SOURCE_CHANGED: Final = "workflowSourceChanged"
_WHAT_NEXT: Final = (
    "Restore it, then resume the run; or cancel the run and start what is there now anew: "
    "pi-workflows run."
)
_INSTALL: Final = (
    "Install the version that the run was started with and resume the run, or cancel the run."
)


@dataclass(frozen=True, slots=True)
class Pin:
    """A source as it was when the run was made."""

    identity: SourceIdentity

    @property
    def path(self) -> Path:
        """Its file: the recorded one, or where a built-in is in this installation.

        Raises:
            SourceChanged: there is no such built-in any more.
        """
        if self.identity.kind is SourceKind.FILE:
            return Path(self.identity.ref)
        builtin = BUILTINS.get(self.identity.ref)
        if builtin is None:
            raise SourceChanged(
                f"this version of pi-workflows has no built-in {BUILTIN_PREFIX}{self.identity.ref}"
                f". {_INSTALL}"
            )
        return builtin.file


class LaunchError(ValueError):
    """The server sent something that is no launch envelope of this version."""


class SourceChanged(Exception):
    """The workflow is not what was recorded when the run was made; nothing may run.

    The text names the file and both identities.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A workflow as it was when its run was made.

    Attributes:
        root: the workflow's own file.
        mounts: the sources of the workflows that it includes, by mount path.
        definition_digest: SHA-256 of the canonical snapshot as 64 hexadecimal digits.
    """

    root: Pin
    mounts: Mapping[str, Pin]
    definition_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Pinned):
    """What the server wants this child to run."""

    identity: Identity


def parse_launch(frame: JsonObject) -> Launch:
    """Read the launch envelope.

    Raises:
        LaunchError: another schema or version, a missing field, or an unknown kind of source.
    """
    try:
        if frame["schema"] != RUNNER_LAUNCH or frame["protocolVersion"] != RUNNER_PROTOCOL_VERSION:
            raise LaunchError("the launch envelope has another schema or protocol version")
        pinned = parse_pinned(frame)
        return Launch(
            identity=Identity(
                cast("str", frame["runId"]),
                cast("int", frame["generation"]),
                cast("str", frame["runnerEpoch"]),
            ),
            root=pinned.root,
            mounts=pinned.mounts,
            definition_digest=pinned.definition_digest,
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, LaunchError):
            raise
        raise LaunchError("the launch envelope is malformed") from error


def parse_pinned(frame: JsonObject) -> Pinned:
    """Read what a message says of the workflow that it is about.

    Raises:
        KeyError, TypeError, ValueError: a field is missing or of another kind.
    """
    source = cast("JsonObject", frame["workflowSource"])
    mounts = cast("list[JsonObject]", source["mounts"])
    return Pinned(
        root=_pin(cast("JsonObject", source["root"])),
        mounts={cast("str", mount["mountPath"]): _pin(mount) for mount in mounts},
        definition_digest=cast("str", frame["definitionDigest"]),
    )


def _pin(source: JsonObject) -> Pin:
    return Pin(SourceIdentity.parse(source))


def load_verified(launch: Pinned, sources: Sources = DISK_SOURCES) -> Definition:
    """Check the hashes of all sources, import them, check mounts and digest of what they build.

    Of files that are not imported by other code, exactly the checked bytes are run.

    Raises:
        SourceChanged: a file is gone or other than recorded, or they give another definition.
        AuthoringError: a recorded file no longer loads, because something else has changed.
    """
    contents: dict[Path, bytes] = {}
    for pin in (launch.root, *launch.mounts.values()):
        if pin.path not in contents:
            contents[pin.path] = _read_pinned(pin, sources)
    root = launch.root.path
    paths = {mount: pin.path for mount, pin in launch.mounts.items()}
    loaded = load_file(root, contents[root])
    try:
        definition = compile_definition(loaded, PinnedChildren(paths, contents), root)
    except KeyError as error:
        raise _other_workflow(root, f'it includes a workflow at "{error.args[0]}" now') from error
    if {mount: mounted.source for mount, mounted in definition.mounts.items()} != paths:
        raise _other_workflow(root, "it includes other files now")
    digest = definition.digest()
    if digest != launch.definition_digest:
        changed = f"digest {launch.definition_digest[:12]}…, now {digest[:12]}…"
        raise _other_workflow(root, changed)
    return definition


def _read_pinned(pin: Pin, sources: Sources) -> bytes:
    path = pin.path
    try:
        source = sources.read(path)
    except OSError as error:
        raise SourceChanged(f"{path} cannot be read: {error.strerror}. {_WHAT_NEXT}") from error
    found = identity_of(path, digest_hex(source))
    if found != pin.identity:
        raise _changed(pin.identity, found)
    return source


def _changed(recorded: SourceIdentity, found: SourceIdentity) -> SourceChanged:
    """Tell that a source has another identity now; both are named."""
    since = "has changed since the run was started"
    if recorded.kind is SourceKind.BUILTIN:
        return SourceChanged(
            f"{BUILTIN_PREFIX}{recorded.ref} {since} (revision {recorded.revision}, "
            f"now {found.revision}). {_INSTALL}"
        )
    return SourceChanged(
        f"{recorded.ref} {since} (SHA-256 {recorded.revision[:12]}…, "
        f"now {found.revision[:12]}…). {_WHAT_NEXT}"
    )


def _other_workflow(path: Path, how: str) -> SourceChanged:
    return SourceChanged(
        f"{path} is unchanged but builds another workflow than the run was started with "
        f"({how}); a module that it imports has changed. {_WHAT_NEXT}"
    )


def describe_load_error(error: AuthoringError) -> str:
    """Return why a workflow file did not load, with its code."""
    return f"[{error.code}] {error.message}"
