"""What people and scripts are shown of workflow files."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pi_workflows.cli.node_names import shown_node
from pi_workflows.cli.output import json_text, safe_line, safe_text
from pi_workflows.cli.render import duration, table, text_of
from pi_workflows.cli.views import member
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot, SnapshotNode
from pi_workflows.protocol.settings_rules import SettingsRules
from pi_workflows.protocol.sources import BUILTIN_PREFIX, SourceIdentity, SourceKind

if TYPE_CHECKING:
    from pi_workflows.authoring.discovery import NamedWorkflow

_DIGITS: Final = 12
"""How much of a digest people are shown."""


_BOUNDS: Final = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "exclusiveMaximum": "<",
    "minLength": "length ≥",
    "maxLength": "length ≤",
    "minItems": "items ≥",
    "maxItems": "items ≤",
}
"""Keywords of JSON Schema, as people are shown them."""


def named(workflow: "NamedWorkflow") -> JsonObject:
    """Return what a list says of a workflow.

    `reference` is what `run` takes for exactly this one, also when its name leads to another.
    """
    builtin = workflow.origin.value == SourceKind.BUILTIN
    exact = f"{BUILTIN_PREFIX}{workflow.name}" if builtin else str(workflow.path)
    facts: JsonObject = {
        "name": workflow.name,
        "source": workflow.origin.value,
        "path": str(workflow.path),
        "reference": workflow.name if workflow.shadowed_by is None else exact,
    }
    if workflow.shadowed_by is not None:
        facts["shadowedBy"] = str(workflow.shadowed_by)
    return facts


def list_page(listed: list[JsonObject]) -> str:
    """Return a table, and below it what has the name of something before it."""
    lines = []
    for facts in listed:
        shadowed = facts.get("shadowedBy")
        note = "" if shadowed is None else f"  shadowed by {safe_line(str(shadowed))}"
        path = text_of(facts["path"]) if facts["source"] != SourceKind.BUILTIN else ""
        shown = path or f"{BUILTIN_PREFIX}{text_of(facts['name'])}"
        lines.append((text_of(facts["name"]), text_of(facts["source"]), f"{shown}{note}"))
    widths = [
        max(len(line[column]) for line in [("NAME", "SOURCE", ""), *lines]) for column in (0, 1)
    ]
    return "\n".join(
        f"{name:<{widths[0]}}  {source:<{widths[1]}}  {where}"
        for name, source, where in [("NAME", "SOURCE", "WHERE"), *lines]
    )


def problems_of(answer: JsonObject) -> list[JsonObject]:
    """Return the problems of an answer that is not sound; at least one."""
    return _listed(answer, "problems")


def problem_text(problem: JsonObject, file: str = "") -> str:
    """Return a problem for people: `file.py:12: [CODE] subject: message`, all else below.

    Args:
        file: which file it is of when it says none itself.
    """
    place = _shown_path(str(problem.get("file", file)))
    if "line" in problem:
        place += f":{problem['line']}"
    subject = f"{problem['subject']}: " if "subject" in problem else ""
    fix = f"\n  {problem['fix']}" if "fix" in problem else ""
    before = f"{place}: " if place else ""
    message = "\n  ".join(line.strip() for line in str(problem["message"]).splitlines())
    return safe_text(f"{before}[{problem['code']}] {subject}{message}{fix}")


def _shown_path(path: str) -> str:
    """Return a path as short as it can be said from here."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path


def check_page(file: str, answer: JsonObject) -> str:
    """Return what `check` says of one file."""
    if answer["outcome"] != "resolved":
        return "\n".join(problem_text(problem, file) for problem in problems_of(answer))
    graph = _graph(answer)
    nodes = sum(node.role is None for node in graph.nodes.values())
    what = f'workflow "{graph.name}", {nodes} {"node" if nodes == 1 else "nodes"}'
    return safe_text(f"{file}: sound: {what}")


def checked(file: str, answer: JsonObject) -> JsonObject:
    """Return what `check --json` says of one file."""
    if answer["outcome"] != "resolved":
        problems: list[JsonValue] = [*problems_of(answer)]
        return {"file": file, "ok": False, "problems": problems}
    facts = {name: answer[name] for name in ("workflowName", "source", "definitionDigest")}
    return {"file": file, "ok": True, **facts, "problems": []}


def show_page(found: JsonObject) -> str:
    """Return what `show` says of a sound workflow."""
    graph, snapshot = _graph(found), member(found, "definitionSnapshot")
    facts = [
        ("source", _source(member(found, "source"))),
        ("digest", text_of(found["definitionDigest"])[:_DIGITS]),
        ("starts at", shown_node(graph.start_at)),
        ("max steps", str(graph.max_steps)),
        ("contract", text_of(snapshot.get("contractId"))),
        ("settings", text_of(None if graph.settings is None else graph.settings.description)),
    ]
    lines = [safe_line(graph.name), *(f"  {name:<10} {text}" for name, text in facts if text)]
    lines += ["", "input", *_field_lines(found.get("inputSchema"))]
    stored = [node for node in _listed(snapshot, "nodes") if "role" not in node]
    nodes = [_node_row(graph.nodes[str(node["id"])], node) for node in stored]
    lines += ["", table(("NODE", "TYPE", "TIMEOUT", "EFFECT", "TRIES"), nodes)]
    lines += _exit_lines(member(found, "exits"))
    lines += _mount_lines(found, graph)
    if "settingsSchema" in found:
        lines += ["", "settings", *_field_lines(found["settingsSchema"])]
    lines += _settings_lines(graph)
    return "\n".join(lines)


def _graph(found: JsonObject) -> DefinitionSnapshot:
    return DefinitionSnapshot.parse(member(found, "definitionSnapshot"))


def _source(stored: JsonObject) -> str:
    source = SourceIdentity.parse(stored)
    if source.kind is SourceKind.BUILTIN:
        return safe_line(f"{BUILTIN_PREFIX}{source.ref}, revision {source.revision}")
    return safe_line(f"{source.ref}, SHA-256 {source.revision[:_DIGITS]}…")


def _listed(holder: JsonObject, name: str) -> list[JsonObject]:
    values = holder.get(name)
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def _timeout(node: SnapshotNode, stored: JsonObject) -> str:
    if "timeout" in stored:  # Computed for each try; nobody knows it yet.
        return "computed"
    return "none" if node.timeout_ms is None else duration(node.timeout_ms)


def _node_row(node: SnapshotNode, stored: JsonObject) -> tuple[str, ...]:
    effect = "" if node.effect_type is None else f"{node.effect_recovery} {node.effect_type}"
    return (
        shown_node(node.node_id),
        f"{node.node_type}{', settings route' if node.settings_route else ''}",
        _timeout(node, stored),
        safe_line(effect),
        "1" if node.retry is None else str(node.retry.attempts),
    )


def _field_lines(schema: JsonValue) -> Iterator[str]:
    """Yield one line per field of a model; the schema itself where it is no object."""
    if not isinstance(schema, dict):
        yield "  any JSON"
        return
    fields = member(schema, "properties")
    if not fields:
        yield f"  {json_text(schema)}"
        return
    required = schema.get("required")
    for name, field in fields.items():
        told = field if isinstance(field, dict) else {}
        needed = isinstance(required, list) and name in required
        rest = "required" if needed else f"default {json_text(told.get('default'))}"
        yield f"  {safe_line(name)}: {_kind(told, member(schema, '$defs'))}, {rest}"


def _kind(field: JsonObject, named: JsonObject) -> str:
    """Return what a field may hold; `named` are the models that it may refer to."""
    either = field.get("anyOf")
    if isinstance(either, list):
        return " or ".join(_kind(one, named) for one in either if isinstance(one, dict))
    reference = field.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        choices = member(named, name).get("enum")
        return safe_line(name) if choices is None else f"one of {json_text(choices)}"
    kind = field.get("format") or field.get("type") or field.get("enum") or "any JSON"
    bounds = [f"{sign} {json_text(field[key])}" for key, sign in _BOUNDS.items() if key in field]
    return " ".join([text_of(kind), *bounds])


def _exit_lines(exits: JsonObject) -> Iterator[str]:
    if exits:
        yield from ("", "exits")
        for name, node in exits.items():
            yield f"  {safe_line(name)}: {shown_node(str(node))}"


def _mount_lines(found: JsonObject, graph: DefinitionSnapshot) -> Iterator[str]:
    mounts = _listed(found, "mounts")
    if mounts:
        yield from ("", "includes")
        for mount in mounts:
            path = str(mount["mountPath"])
            name = safe_line(graph.mounts[path].name)
            yield f"  {safe_line(path)}: {name}, {_source(mount)}"


def _settings_lines(graph: DefinitionSnapshot) -> Iterator[str]:
    for mount, rules in [("", graph.settings), *_settings_of_mounts(graph)]:
        if rules is not None:
            of = f" of {safe_line(mount)}" if mount else ""
            yield from ("", f"settings{of} that may be changed", *_rule_lines(rules))


def _settings_of_mounts(graph: DefinitionSnapshot) -> list[tuple[str, SettingsRules | None]]:
    return [(path, mount.settings) for path, mount in sorted(graph.mounts.items())]


def _rule_lines(rules: SettingsRules) -> Iterator[str]:
    for rule in rules.paths:
        may = "; ".join(
            f"{permission.value} by {', '.join(sorted(actor.value for actor in actors))}"
            for permission, actors in rule.actors.items()
        )
        yield f"  {safe_line(rule.path) or 'all'}: {may}"
