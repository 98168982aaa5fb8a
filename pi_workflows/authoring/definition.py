"""A built workflow: frozen, checked, and ready for the runner."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias

from typing_extensions import TypeVar

from pi_workflows.authoring.codec import ANY_JSON, Codec, broken_rules
from pi_workflows.authoring.context import Ctx
from pi_workflows.authoring.conversation import Conversation
from pi_workflows.authoring.effects import EffectSpec
from pi_workflows.authoring.errors import InputRejected, Location
from pi_workflows.authoring.mounts import Entry, ExitDefinition, Include, Leaving, Mounted
from pi_workflows.authoring.settings import SettingsDefinition
from pi_workflows.authoring.shell import ShellResult
from pi_workflows.authoring.snapshot import snapshot_of
from pi_workflows.authoring.timeouts import Timeout
from pi_workflows.authoring.updates import UpdateLines
from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes, digest_hex
from pi_workflows.protocol.definition import Edge
from pi_workflows.protocol.retry import RetryRule
from pi_workflows.protocol.states import NodeType

C = TypeVar("C", default=Any)

WORKFLOW_SUFFIX: Final = ".workflow.py"

TitleCallback: TypeAlias = Callable[[Any, str], object]
"""Takes the loaded input and the workflow's name; gives text, nothing, or a coroutine of them."""
PresentationCallback: TypeAlias = Callable[[Any, Any], object]
"""Takes the loaded input and the final output; gives text, nothing, or a coroutine of them."""


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """How a shell node reads its command's end.

    Attributes:
        parse: turns the result into the output; None leaves the `ShellResult`. Synchronous.
        allow_nonzero_exit: whether a non-zero exit code or a signal is `ok`.
        max_output_chars: of each stream; the rest is cut and flagged.
        updates: finds updates in the output; None finds none.
    """

    parse: Callable[[ShellResult], Any] | None
    allow_nonzero_exit: bool
    max_output_chars: int
    updates: UpdateLines | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """How an effect is looked for.

    Attributes:
        fn: the observing function, always called with the context.
        is_async: whether `fn` returns a coroutine.
        timeout_ms: how long one look may take, at least 1.
    """

    fn: Callable[[Ctx[Any]], Any]
    is_async: bool
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDefinition:
    """One node.

    Attributes:
        fn: the author's function, always called with the context; a coroutine function if
            `is_async`. A shell node's returns the `Command`.
        codec: of the output.
        status_detail: text shown while the node runs; None shows nothing.
        effect: None for all but action and shell nodes.
        look: None for all but nodes whose effect is observed.
        request: gives the effect's request payload (it may be async); None stands for
            `{input, outputs}`.
        shell: None for all but shell nodes.
        retry: None for nodes that are tried once.
        location: where the author declared it.
        mount_path: whose code it is: the mounts from the root down, joined by `/`; empty for the
            root's. An entry is its parent's code, an exit its child's.
        crossing: which mount it enters or leaves; None for nodes that authors declare.
        settings_route: it runs again when settings change before it is recorded.
        conversation: what a node that talks asks or says; its function gives it. None for others.
    """

    node_id: str
    node_type: NodeType
    fn: Callable[[Ctx[Any]], Any]
    is_async: bool
    codec: Codec
    timeout: Timeout
    status_detail: str | None
    effect: EffectSpec[Any] | None
    look: Look | None
    request: Callable[[Ctx[Any]], Any] | None
    shell: ShellOptions | None
    retry: RetryRule | None
    location: Location
    mount_path: str = ""
    crossing: Entry | Leaving | None = None
    settings_route: bool = False
    conversation: Conversation | None = None

    @property
    def local_id(self) -> str:
        """Its id in the workflow whose code it is."""
        return self.node_id[len(self.mount_path) + 1 :] if self.mount_path else self.node_id

    @property
    def action_type(self) -> str:
        """What the receipt of a node with an effect calls it: `shell` or `function`."""
        return "function" if self.shell is None else "shell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition(Generic[C]):
    """A built workflow; the type parameter is the type of its input.

    Attributes:
        contract_id: stable identity of input and exits; None when it has none.
        nodes: by node id, in order of declaration; compiled, those of all mounts are among them.
        edges: the one outgoing edge of each node that has one, by its node id.
        start_at: id of the first node.
        max_steps: recorded attempts after which the run fails.
        source: the file that holds it.
        owner: identity of the `Workflow` that built it.
        exits: by name; they count only where another workflow includes this one.
        includes: by mount name, what compilation has still to put in place; compiled, empty.
        mounts: by mount path, what compilation has put in place.
        settings: None when the workflow declares none.
    """

    name: str
    contract_id: str | None
    input_codec: Codec
    title: str | TitleCallback | None
    nodes: Mapping[str, NodeDefinition]
    edges: Mapping[str, Edge]
    start_at: str
    max_steps: int
    presentation_prompt: str | PresentationCallback | None
    source: Path
    owner: object
    exits: Mapping[str, ExitDefinition]
    includes: Mapping[str, Include]
    mounts: Mapping[str, Mounted] = field(default_factory=dict)
    settings: SettingsDefinition | None = None

    def snapshot(self) -> JsonObject:
        """Return `pi-workflows.definition-snapshot.v1`: all but the callables."""
        return snapshot_of(self)

    def digest(self) -> str:
        """Return the SHA-256 of the canonical snapshot, 64 hexadecimal digits."""
        return digest_hex(canonical_bytes(self.snapshot()))

    def codecs(self) -> Mapping[str, Codec]:
        """Return the output codec of every node that its own code can name."""
        return {
            node_id: node.codec
            for node_id, node in self.nodes.items()
            if not node.mount_path and node.crossing is None
        }

    def exit_codecs(self) -> Mapping[str, Mapping[str, Codec]]:
        """Return the codecs of the exits of every mount that its own code can name."""
        return {
            path: mounted.exit_codecs() for path, mounted in self.mounts.items() if "/" not in path
        }

    def accept_input(self, value: JsonValue) -> JsonValue:
        """Validate an input and return its normal form, which is the run's immutable input.

        Null, which is what an unsaid input is, stands for `{}` where the input's type refuses it:
        a model whose fields all have defaults then needs no input.

        Raises:
            InputRejected: the input model refuses it.
            NotJsonError: it is not JSON, or its normal form would not read back equal.
        """
        where = self._where
        plain = ANY_JSON.dump(value, where=where)
        fields = broken_rules(self.input_codec, plain)
        absent = plain is None
        if fields and absent:
            plain = {}
            fields = broken_rules(self.input_codec, plain)
        if fields:
            raise InputRejected(self.name, fields, absent=absent)
        return self.input_codec.dump(self.input_codec.load(plain), where=where)

    def begin_settings(self, accepted_input: JsonValue) -> JsonValue:
        """Return the settings that a run, or an invocation, with this input begins with.

        Raises:
            SettingsRejected: they do not fit their model, or are too large.
            BaseException: from the author's function.
        """
        assert self.settings is not None, "asked only of a workflow that declares settings"
        return self.settings.begin(self.input_codec.load(accepted_input))

    def accept_mapped(self, value: object) -> JsonValue:
        """Normalise an input that a parent's mapper has made; None stands for no input.

        Raises:
            InputRejected: no input was made, and the input model needs one.
            NotJsonError: it does not fit the declared type, or would not read back equal.
        """
        if value is None:
            return self.accept_input(None)
        return self.input_codec.dump(value, where=self._where)

    @property
    def _where(self) -> str:
        return f'workflow "{self.name}" input'
