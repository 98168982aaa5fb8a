"""A workflow with all that it includes, loaded as somebody who starts it names it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pi_workflows.authoring.compiling import compile_definition, with_children
from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.errors import AuthoringError, DefinitionError
from pi_workflows.authoring.loading import failure_of, load_file
from pi_workflows.protocol.builtins import identity_of
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.sources import SourceIdentity
from pi_workflows.runner.children import FoundChildren
from pi_workflows.runner.sources import Sources


@dataclass(frozen=True, slots=True)
class WholeWorkflow:
    """A compiled workflow and where it comes from.

    Attributes:
        reference: how it was named.
        path: its file, absolute.
        mounts: `{mountPath, …}` with the source of everything that is included, by mount path.
    """

    reference: str
    path: Path
    source: SourceIdentity
    definition: Definition
    mounts: list[JsonValue]

    def described(self) -> JsonObject:
        """Return what every answer says of it."""
        return {
            "workflowName": self.definition.name,
            "workflowRef": self.reference,
            "source": self.source.stored(),
            "mounts": self.mounts,
            "definitionSnapshot": self.definition.snapshot(),
            "definitionDigest": self.definition.digest(),
        }


def load_whole(request: JsonObject, sources: Sources) -> WholeWorkflow:
    """Find, run and compile the workflow of a request; foreign code runs.

    Args:
        request: with `workflow`, `projectPath` and `home`.

    Raises:
        AuthoringError: there is none, or it is wrong, with all that is wrong in what it includes.
        BaseException: whatever the code of an included one raises past the loader.
    """
    reference = cast("str", request["workflow"])
    project = Path(cast("str", request["projectPath"]))
    home = Path(cast("str", request["home"]))
    path = sources.find(reference, project, home)
    source, sha256 = sources.identify(path)
    children = FoundChildren(sources, project, home)
    try:
        root = load_file(path, source)
    except DefinitionError as error:
        raise with_children(error, children) from None
    except AuthoringError:
        raise
    except BaseException as error:  # noqa: BLE001 - an interrupt that the file itself raises
        raise failure_of(path, error) from None
    definition = compile_definition(root, children, path)
    mounts = _mounts(definition, {**children.hashes, path: sha256}, sources)
    return WholeWorkflow(reference, path, identity_of(path, sha256), definition, mounts)


def _mounts(
    definition: Definition, hashes: Mapping[Path, str], sources: Sources
) -> list[JsonValue]:
    """Return the sources of everything that is included, by mount path.

    Args:
        hashes: of the files whose bytes were run; those that were imported are read for theirs.

    Raises:
        AuthoringError: a file cannot be read, so no run could be held to it.
    """
    known = dict(hashes)
    mounts: list[JsonValue] = []
    for mount_path, mounted in sorted(definition.mounts.items()):
        path = mounted.source
        if path not in known:
            known[path] = sources.identify(path)[1]
        mounts.append({"mountPath": mount_path, **identity_of(path, known[path]).stored()})
    return mounts
