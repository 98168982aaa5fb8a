"""Reads what a command that stops a run was answered: what was cut off, what nobody knows."""

from pi_workflows.cli import output, render
from pi_workflows.cli.node_names import shown_node
from pi_workflows.protocol.canonical import JsonObject


def cut_off_node(verdict: JsonObject) -> str | None:
    """Return the node whose try was under way; None when there was none."""
    cut_off = verdict.get("cutOff")
    node = cut_off.get("nodeId") if isinstance(cut_off, dict) else None
    return None if node is None else shown_node(str(node))


def is_unsure(verdict: JsonObject, node: str) -> bool:
    """Say whether nobody knows what a node has done outside, so that it does not run again."""
    return any(render.text_of(effect.get("nodeId")) == node for effect in _ambiguous(verdict))


def tell_ambiguous(verdict: JsonObject) -> bool:
    """Say of each effect whose outcome is unknown that somebody has to look; True if any is."""
    effects = _ambiguous(verdict)
    for effect in effects:
        node = effect.get("nodeId")
        where = f' of node "{shown_node(str(node))}"' if node is not None else ""
        output.tell(
            f'effect "{render.text_of(effect.get("effectType"))}"{where} is ambiguous:'
            " nobody knows whether it happened; look there"
        )
    return bool(effects)


def _ambiguous(verdict: JsonObject) -> list[JsonObject]:
    listed = verdict.get("ambiguousEffects")
    if not isinstance(listed, list):
        return []
    return [effect for effect in listed if isinstance(effect, dict)]
