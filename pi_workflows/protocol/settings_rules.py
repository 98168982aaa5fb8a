"""Who may do what to which part of a workflow's settings: data that a definition carries (B §7.1).

A rule names a part by JSON Pointer (RFC 6901) and, for each permission, the actors that have it.
It holds for the part and for all inside of it, unless a rule for something inside says otherwise.
"""

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import ActorType

POINTER_BYTES_MAX: Final = 1_024
"""Longest JSON Pointer, in bytes of UTF-8."""

SETTINGS_BYTES_MAX: Final = 262_144
"""Largest settings, in bytes of their canonical JSON."""

ROOT_SCOPE: Final = "$root"
"""What stands for the mount path of a run's own settings in the id of their scope."""

Tokens: TypeAlias = tuple[str, ...]
"""The parts of a JSON Pointer, unescaped; empty for the whole document."""

_ESCAPED: Final = re.compile(r"~(?:[01])|~")


class Permission(enum.StrEnum):
    """What may be done to a part of settings."""

    READ = "read"
    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


class PointerInvalid(ValueError):
    """A text is no JSON Pointer; the text says why, and repeats nothing of it."""


def pointer_tokens(pointer: object) -> Tokens:
    """Return the parts of a JSON Pointer.

    Raises:
        PointerInvalid: it is no text, too long, does not begin with `/`, or has a lone `~`.
    """
    if not isinstance(pointer, str):
        raise PointerInvalid("a JSON Pointer is a text")
    try:
        size = len(pointer.encode())
    except UnicodeEncodeError:
        raise PointerInvalid("a JSON Pointer has no lone surrogate") from None
    if size > POINTER_BYTES_MAX:
        raise PointerInvalid(f"a JSON Pointer has at most {POINTER_BYTES_MAX} bytes")
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise PointerInvalid('a JSON Pointer is empty or begins with "/"')
    if "~" in _ESCAPED.findall(pointer):
        raise PointerInvalid('in a JSON Pointer "~" is followed by 0 or 1')
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


@dataclass(frozen=True, slots=True)
class PathRule:
    """What actors may do to one part of the settings.

    Attributes:
        path: JSON Pointer of the part, as it was declared.
        actors: who has a permission; one that is absent nobody has.
    """

    path: str
    actors: Mapping[Permission, frozenset[ActorType]]

    @property
    def tokens(self) -> Tokens:
        """The parts of the path."""
        return pointer_tokens(self.path)

    def stored(self) -> JsonObject:
        """Return the form that a definition snapshot has."""
        stored: JsonObject = {"path": self.path}
        for permission, actors in sorted(self.actors.items()):
            listed: list[JsonValue] = [*sorted(actor.value for actor in actors)]
            stored[permission.value] = listed
        return stored


@dataclass(frozen=True, slots=True)
class SettingsRules:
    """All rules of one workflow's settings.

    Attributes:
        paths: one rule per path.
        description: what the settings are for; None says nothing.
    """

    paths: tuple[PathRule, ...]
    description: str | None = None

    def allow(self, tokens: Sequence[str], permission: Permission, actor: ActorType) -> bool:
        """Say whether an actor has a permission on a part.

        The rule with the longest path that leads to it decides alone; without one it is denied.
        """
        nearest: PathRule | None = None
        length = -1
        for rule in self.paths:
            path = rule.tokens
            if len(path) > length and tuple(tokens[: len(path)]) == path:
                nearest, length = rule, len(path)
        return nearest is not None and actor in nearest.actors.get(permission, frozenset())

    def stored(self) -> JsonObject:
        """Return the form that a definition snapshot has."""
        paths: list[JsonValue] = [
            rule.stored() for rule in sorted(self.paths, key=lambda rule: rule.path)
        ]
        stored: JsonObject = {"paths": paths}
        if self.description is not None:
            stored["description"] = self.description
        return stored

    @classmethod
    def parse(cls, stored: JsonObject) -> "SettingsRules":
        """Read the rules of a snapshot.

        Raises:
            KeyError, ValueError: it has another form.
        """
        rules = cast("list[JsonObject]", stored["paths"])
        return cls(
            tuple(_parse_rule(rule) for rule in rules),
            cast("str | None", stored.get("description")),
        )


def _parse_rule(stored: JsonObject) -> PathRule:
    return PathRule(
        cast("str", stored["path"]),
        {
            permission: actors_of(cast("list[str]", stored[permission.value]))
            for permission in Permission
            if permission.value in stored
        },
    )


def actors_of(names: Iterable[str]) -> frozenset[ActorType]:
    """Return actors by their names.

    Raises:
        ValueError: a name is no actor's.
    """
    return frozenset(ActorType(name) for name in names)


def scope_id(run_id: str, mount_path: str, invocation: int) -> str:
    """Return the id of the settings of one invocation; an empty mount path is the run's own."""
    return f"{run_id}:{mount_path or ROOT_SCOPE}:{invocation}"
