"""The stored form of a workflow graph, and the one routing function.

The runner routes with it and the server checks the runner's proposal with it, so both read the
same data the same way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_text
from pi_workflows.protocol.retry import RetryRule
from pi_workflows.protocol.settings_rules import SettingsRules
from pi_workflows.protocol.states import MountRole, RunStatus, StepOutcome
from pi_workflows.protocol.version import DEFINITION_SNAPSHOT

TIMEOUT_DEFAULT_MS: Final = 900_000
MAX_STEPS_DEFAULT: Final = 100
NODE_ID_CHARS_MAX: Final = 1_024
"""Longest compiled id of a node: the mounts around it and its own name, joined by `/`."""

OUTCOME_PATH: Final = "$result.outcome"
_EXIT_PREFIX: Final = "__piw_exit_"


@dataclass(frozen=True, slots=True)
class PlainEdge:
    """Taken only after outcome `ok`."""

    to: str


@dataclass(frozen=True, slots=True)
class SwitchEdge:
    """Picks a target by the JSON text of the value at `on`."""

    on: str
    cases: Mapping[str, str]


Edge = PlainEdge | SwitchEdge


@dataclass(frozen=True, slots=True)
class GoTo:
    """The run goes on at this node."""

    node_id: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """The run ends.

    Attributes:
        status: completed, failed or timed_out.
        error: text for the run; None when it completed.
    """

    status: RunStatus
    error: str | None


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """What the server may know of a node: data only.

    Attributes:
        timeout_ms: what its code is given unless a try says otherwise; None is no limit.
        look_ms: how long a look for its effect may take; 0 when there is none.
        mount_path: whose code it is; empty for the root's.
        role: entry or exit of a mount; None for a node that an author declared.
        exit_name: by which exit a mount is left here; None for other nodes.
        validated: whether the exit's validator may change what is carried out.
        notice_kind: of a notification, `progress` or `final`; None for other nodes.
        settings_route: its output counts only while the settings are those that it has read.
    """

    node_id: str
    node_type: str
    effect_type: str | None
    effect_recovery: str | None
    retry: RetryRule | None = None
    timeout_ms: int | None = TIMEOUT_DEFAULT_MS
    look_ms: int = 0
    mount_path: str = ""
    role: MountRole | None = None
    exit_name: str | None = None
    validated: bool = False
    notice_kind: str | None = None
    settings_route: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotMount:
    """What the server may know of an included workflow.

    Attributes:
        max_steps: of one invocation.
        settings: None when it declares none.
    """

    name: str
    max_steps: int
    settings: SettingsRules | None = None


@dataclass(frozen=True, slots=True)
class DefinitionSnapshot:
    """A parsed `pi-workflows.definition-snapshot.v1`.

    Attributes:
        mounts: by path.
        settings: the root's rules; None when it declares none.
    """

    name: str
    start_at: str
    max_steps: int
    nodes: Mapping[str, SnapshotNode]
    edges: Mapping[str, Edge]
    mounts: Mapping[str, SnapshotMount] = field(default_factory=dict)
    settings: SettingsRules | None = None

    def settings_of(self, mount_path: str) -> SettingsRules | None:
        """Return the rules for the settings of the workflow at a mount, or the root's.

        None when that workflow declares no settings.
        """
        return self.mounts[mount_path].settings if mount_path else self.settings

    @classmethod
    def parse(cls, snapshot: JsonObject) -> "DefinitionSnapshot":
        """Read a snapshot that the resolver made.

        Raises:
            ValueError: a field is missing or of another kind.
        """
        try:
            if snapshot["schema"] != DEFINITION_SNAPSHOT:
                raise ValueError("the definition snapshot has an unknown schema")
            nodes = cast("list[JsonObject]", snapshot["nodes"])
            edges = cast("list[JsonObject]", snapshot["edges"])
            mounts = cast("list[JsonObject]", snapshot["mounts"])
            return cls(
                name=cast("str", snapshot["name"]),
                start_at=cast("str", snapshot["startAt"]),
                max_steps=cast("int", snapshot["maxSteps"]),
                nodes={node.node_id: node for node in map(_parse_node, nodes)},
                edges={cast("str", edge["from"]): parse_edge(edge) for edge in edges},
                mounts={cast("str", mount["path"]): _parse_mount(mount) for mount in mounts},
                settings=_parse_settings(snapshot),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("the definition snapshot is malformed") from error


def _parse_mount(mount: JsonObject) -> SnapshotMount:
    return SnapshotMount(
        cast("str", mount["name"]), cast("int", mount["maxSteps"]), _parse_settings(mount)
    )


def _parse_settings(holder: JsonObject) -> SettingsRules | None:
    stored = cast("JsonObject | None", holder.get("settings"))
    return None if stored is None else SettingsRules.parse(stored)


def _parse_node(node: JsonObject) -> SnapshotNode:
    effect = cast("JsonObject", node.get("effect") or {})
    retry = cast("JsonObject | None", node.get("retry"))
    role = cast("str | None", node.get("role"))
    return SnapshotNode(
        node_id=cast("str", node["id"]),
        node_type=cast("str", node["type"]),
        effect_type=cast("str | None", effect.get("type")),
        effect_recovery=cast("str | None", effect.get("recovery")),
        retry=None if retry is None else RetryRule.parse(retry),
        timeout_ms=cast("int | None", node.get("timeoutMs", TIMEOUT_DEFAULT_MS)),
        look_ms=cast("int", effect.get("lookTimeoutMs", 0)),
        mount_path=cast("str", node.get("mountPath", "")),
        role=None if role is None else MountRole(role),
        exit_name=cast("str | None", node.get("exit")),
        validated=cast("bool", node.get("validated", False)),
        notice_kind=cast("str | None", node.get("kind")),
        settings_route=cast("bool", node.get("settingsRoute", False)),
    )


def parse_edge(edge: JsonObject) -> Edge:
    """Read one edge object of a snapshot."""
    if "to" in edge:
        return PlainEdge(cast("str", edge["to"]))
    switch = cast("JsonObject", edge["switch"])
    return SwitchEdge(cast("str", switch["on"]), cast("dict[str, str]", switch["cases"]))


def exit_node_id(mount_path: str, exit_name: str) -> str:
    """Return the id of the transition that leaves a mount by an exit."""
    return f"{mount_path}/{_EXIT_PREFIX}{exit_name}"


def enclosing_mounts(mount_path: str) -> Iterator[str]:
    """Yield a mount path and those around it, innermost first; nothing for the root."""
    while mount_path:
        yield mount_path
        mount_path = mount_path.rpartition("/")[0]


def exit_of(node_id: str) -> tuple[str, str] | None:
    """Return mount path and exit of a transition out of a mount; None for any other node."""
    mount_path, _, name = node_id.rpartition("/")
    if not name.startswith(_EXIT_PREFIX):
        return None
    return mount_path, name.removeprefix(_EXIT_PREFIX)


def result_record(outcome: StepOutcome, output: JsonValue, error: str | None) -> JsonObject:
    """Return what `$result.` paths read: `outcome`, `output` after ok, `error` otherwise."""
    record: JsonObject = {"outcome": outcome.value}
    if outcome is StepOutcome.OK:
        record["output"] = output
    if error is not None:
        record["error"] = error
    return record


def route(
    node_id: str,
    edge: Edge | None,
    outcome: StepOutcome,
    output: JsonValue,
    result: JsonObject,
) -> GoTo | EndRun:
    """Decide what follows a recorded step (B §1.2).

    Args:
        node_id: of the step, for the text of a routing error.
        edge: the node's only outgoing edge; None when it has none.
        outcome: how the step ended; `cancelled` never routes.
        output: the accepted output; meaningful after `ok` only.
        result: the result record (`outcome`, `error`?, …) that `$result.` paths read.
    """
    if outcome is StepOutcome.CANCELLED:
        return EndRun(RunStatus.CANCELLED, _error_of(result, outcome))
    if outcome is not StepOutcome.OK:
        return _route_after_failure(edge, outcome, result)
    match edge:
        case None:
            return EndRun(RunStatus.COMPLETED, None)
        case PlainEdge(to):
            return GoTo(to)
        case SwitchEdge():
            return _switch(node_id, edge, output, result)


def _switch(
    node_id: str, edge: SwitchEdge, output: JsonValue, result: JsonObject
) -> GoTo | EndRun:
    where = f'ROUTING: node "{node_id}": {edge.on}'
    found, value = read_path(edge.on, output, result)
    if not found or not isinstance(value, str | int | float):
        text = f"{where} is no string, number or boolean; a switch needs one of them there."
        return EndRun(RunStatus.FAILED, text)
    target = edge.cases.get(case_text(value))
    if target is None:
        known = ", ".join(sorted(edge.cases))
        text = f"{where} has no case for its value; it has: {known}. Add a case for it."
        return EndRun(RunStatus.FAILED, text)
    return GoTo(target)


def _route_after_failure(
    edge: Edge | None, outcome: StepOutcome, result: JsonObject
) -> GoTo | EndRun:
    if isinstance(edge, SwitchEdge) and edge.on == OUTCOME_PATH:
        target = edge.cases.get(outcome.value)
        if target is not None:
            return GoTo(target)
    return EndRun(RunStatus(outcome.value), _error_of(result, outcome))


def _error_of(result: JsonObject, outcome: StepOutcome) -> str:
    error = result.get("error")
    return error if isinstance(error, str) else f"the last step ended {outcome.value}"


def read_path(path: str, output: JsonValue, result: JsonObject) -> tuple[bool, JsonValue]:
    """Follow a dotted path from `$.`, `$output.` or `$result.`; return (found, value)."""
    root, *names = path.split(".")
    value: JsonValue = result if root == "$result" else output
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False, None
        value = value[name]
    return True, value


def output_names(path: str) -> list[str] | None:
    """Return the names by which `read_path` goes down the output; None if it reads no output."""
    root, *names = path.split(".")
    if root != "$result":
        return names
    return names[1:] if names[:1] == ["output"] else None


def case_text(value: str | float) -> str:
    """Return the text a case is named by: JSON text, without quotes for a string."""
    return value if isinstance(value, str) else canonical_text(value)
