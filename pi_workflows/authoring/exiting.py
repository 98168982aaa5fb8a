"""What a parent learns of the exit by which an included workflow was left."""

from collections.abc import Mapping
from typing import Any

from pi_workflows.authoring.codec import Codec
from pi_workflows.authoring.errors import ExitUnknown
from pi_workflows.authoring.handles import Exit, Mount
from pi_workflows.protocol.canonical import JsonValue


def carried_out(
    mount: Mount, exit_: Exit[Any] | str, known: Mapping[str, Codec], left: JsonValue
) -> Any:  # noqa: ANN401 - the exit carries the type
    """Return what was carried out by an exit; None if it was not left by this one.

    Args:
        known: codec of every exit of the mount.
        left: the mount's latest output; None when it has none.

    Raises:
        ExitUnknown: the mount has no such exit.
    """
    name = exit_.exit_name if isinstance(exit_, Exit) else exit_
    if name not in known:
        raise ExitUnknown(mount.mount_name, name, known)
    if not isinstance(left, dict) or left.get("exit") != name:
        return None
    return known[name].load(left["output"])
