"""Workflows inside workflows: what a definition knows of its includes, mounts and exits (B §1.3).

In the compiled graph a mount is entered by one transition and left by one per exit. Each is a
node: the entry has the mount's path for its id, an exit `<mount>/__piw_exit_<exit>`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pi_workflows.authoring.codec import Codec
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.errors import Location
from pi_workflows.protocol.canonical import JsonValue

if TYPE_CHECKING:
    from pi_workflows.authoring.definition import Definition

Mapper = Callable[[Ctx[Any]], Any]
"""Makes the child's input, or its initial settings, from the parent's context."""

Validator = Callable[[Any], Any]
"""Takes what leaves by an exit; returns it, in its normal form, or raises."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The transition into a mount; its node's function maps the input.

    Attributes:
        mount: path of the mount.
        settings: makes the child's initial settings; None leaves that to the child.
    """

    mount: str
    settings: Mapper | None = None


@dataclass(frozen=True, slots=True)
class Leaving:
    """A transition out of a mount.

    Attributes:
        mount: path of the mount.
        exit_name: by which exit.
        validate: None lets every output pass.
    """

    mount: str
    exit_name: str
    validate: Validator | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Include:
    """Another workflow in a workflow, before compilation puts its nodes there.

    Attributes:
        child: a built workflow, or a reference: a name, `builtin:<id>` or a path.
        mapper: None gives the child no input.
        settings: makes the child's initial settings; None leaves that to the child.
        contract: the shape that a referenced child has to have; None lets it have any.
        location: where the author included it.
    """

    child: "Definition[Any] | str"
    mapper: Mapper | None
    settings: Mapper | None
    contract: "Definition[Any] | None"
    location: Location

    @property
    def shape(self) -> "Definition[Any] | None":
        """What is known of the child's exits without resolving it; None for nothing."""
        return self.contract if isinstance(self.child, str) else self.child


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitDefinition:
    """A way out of a workflow.

    Attributes:
        source: id of the terminal node whose output it carries.
        codec: of what it carries.
        location: where the author declared it.
    """

    source: str
    codec: Codec
    validate: Validator | None
    location: Location


@dataclass(frozen=True, slots=True)
class Mounted:
    """A workflow at its place in a compiled graph.

    Attributes:
        child: compiled; what its code sees is what it would see as a root.
        source: the file that holds it, absolute.
        contract: whose types its parent uses, which has imported them; None for the child's own.
    """

    child: "Definition[Any]"
    source: Path
    contract: "Definition[Any] | None" = None

    def accept(self, made: object) -> JsonValue:
        """Normalise what the parent's mapper has made for the child; None stands for no input.

        Raises:
            InputRejected: the child's input model, or the contract's, refuses it.
            NotJsonError: it has no JSON form.
        """
        if self.contract is None:
            return self.child.accept_mapped(made)
        return self.child.accept_input(self.contract.accept_mapped(made))

    def exit_codecs(self) -> Mapping[str, Codec]:
        """Return by exit how the parent reads what the child carries out."""
        known = self.contract or self.child
        return {name: exit_.codec for name, exit_ in known.exits.items()}
