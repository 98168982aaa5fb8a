"""Settings: what may be changed of a run while it goes on, by whom, within which rules (B §7.1).

A workflow declares them with `Settings(Model, initial=..., paths=[allow(...)])`; its nodes read
their copy at `ctx.settings`. People and programs change them by patches; nodes never do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pi_workflows.authoring.callables import caller_location, is_async, takes, yields
from pi_workflows.authoring.codec import ANY_JSON, Codec, UndeclarableType, broken_rules, unfit
from pi_workflows.authoring.contexts import UNDECLARED
from pi_workflows.authoring.errors import Location, NotJsonError, Problems, SettingsRejected
from pi_workflows.authoring.settings_shape import leads_somewhere
from pi_workflows.protocol.canonical import JsonValue, canonical_bytes
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.settings_rules import (
    SETTINGS_BYTES_MAX,
    PathRule,
    Permission,
    PointerInvalid,
    SettingsRules,
    actors_of,
    pointer_tokens,
)
from pi_workflows.protocol.states import ActorType

S = TypeVar("S")

_ACTORS: Final = ", ".join(actor.value for actor in ActorType)


@dataclass(frozen=True, slots=True)
class Allow:
    """What `allow` gives: one path and who may do what there, unchecked."""

    path: str
    actors: Mapping[Permission, Sequence[str] | None]


def allow(
    path: str,
    *,
    read: Sequence[str] | None = None,
    add: Sequence[str] | None = None,
    remove: Sequence[str] | None = None,
    replace: Sequence[str] | None = None,
) -> Allow:
    """Say who may do what to one part of the settings; `Workflow` checks it.

    The rule with the longest path that leads to a place decides there alone, and what no rule
    allows is denied. It holds for all that is inside the part: whoever may replace a part replaces
    what is in it, rules of its own or not.

    Args:
        path: JSON Pointer of the part, `/lane`; an empty one is the whole.
        read: actors whose patches may test it or copy from it.
        add: actors who may add what is not there yet, or insert into a list.
        remove: actors who may remove it.
        replace: actors who may replace it. Actors are of: session, host, controller, channel,
            human, policy, control, system; the command line is `human`.
    """
    actors = {
        Permission.READ: read,
        Permission.ADD: add,
        Permission.REMOVE: remove,
        Permission.REPLACE: replace,
    }
    return Allow(path, {kind: given for kind, given in actors.items() if given is not None})


@dataclass(frozen=True, slots=True)
class SettingsChange(Generic[S]):
    """A change that `validate_change` may refuse by raising.

    Attributes:
        before: the settings as they stand.
        after: the settings as the patch makes them; the model has accepted them.
        actor: who asks: `human`, `session`, ….
        source: how they ask, a label of 1 to 128 characters, such as `cli`.
        patch: the operations, as JSON.
    """

    before: S
    after: S
    actor: str
    source: str
    patch: Sequence[JsonValue]


class Settings(Generic[S]):
    """The settings of a workflow, for `Workflow(settings=...)`; the parameter is their type.

    Args:
        model: type of the settings, usually a pydantic model.
        initial: what they are when a run, or an invocation, begins; `Workflow` checks it. Or a
            function of the input, or of nothing, that gives it within 30 seconds.
        paths: rules that `allow` makes, of parts that the model has; without one nobody may
            change anything.
        description: what they are for, shown to those who change them; None says nothing.
        validate_change: looks at a change and raises to refuse it; None refuses none that the
            model accepts.
    """

    def __init__(
        self,
        model: type[S],
        *,
        initial: S | Callable[[Any], S] | Callable[[], S],
        paths: Sequence[Allow] = (),
        description: str | None = None,
        validate_change: Callable[[SettingsChange[S]], object] | None = None,
    ) -> None:
        self.model = model
        self.initial = initial
        self.paths = paths
        self.description = description
        self.validate_change = validate_change
        self.location = caller_location()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDefinition:
    """Settings of a built workflow.

    Attributes:
        initial: as it was declared.
    """

    workflow_name: str
    codec: Codec
    initial: Any
    rules: SettingsRules
    validate_change: Callable[[SettingsChange[Any]], object] | None
    location: Location

    def begin(self, loaded_input: object) -> JsonValue:
        """Return what the settings are at first.

        Raises:
            SettingsRejected: they do not fit their model, or are too large.
            BaseException: from the author's function.
        """
        made = self.initial
        if callable(made):
            made = made(loaded_input) if takes(made, 1) and not takes(made, 0) else made()
        return self.accept(made)

    def accept(self, made: object) -> JsonValue:
        """Return the stored form of initial settings that the author's code has made.

        Raises:
            SettingsRejected: as `begin`.
        """
        try:
            value = self.codec.dump(made, where="the initial settings")
        except NotJsonError as error:
            broken = unfit(self.codec, made)
            why = _model_says(broken) if broken else error.message
            raise SettingsRejected(self.workflow_name, why) from error
        size = len(canonical_bytes(value))
        if size > SETTINGS_BYTES_MAX:
            text = f"they have {size} bytes of JSON, and at most {SETTINGS_BYTES_MAX} are allowed."
            raise SettingsRejected(self.workflow_name, text)
        return value

    def check_change(
        self, before: JsonValue, after: JsonValue, actor: str, source: str, patch: list[JsonValue]
    ) -> None:
        """Refuse patched settings that the model does not accept as they are.

        Raises:
            SettingsRejected: the model refuses or would alter them.
            BaseException: from `validate_change`, which refuses the change so.
        """
        broken = broken_rules(self.codec, after)
        if broken:
            raise SettingsRejected(self.workflow_name, _model_says(broken))
        loaded = self.codec.load(after)
        try:
            unaltered = canonical_bytes(self.codec.dump(loaded, where="settings"))
        except NotJsonError as error:
            raise SettingsRejected(self.workflow_name, error.message) from error
        if unaltered != canonical_bytes(after):
            text = (
                "the model would alter what the patch has made: write values in their normal form."
            )
            raise SettingsRejected(self.workflow_name, text)
        if self.validate_change is not None:
            change = SettingsChange(self.codec.load(before), loaded, actor, source, patch)
            self.validate_change(change)


def settings_definition(
    workflow_name: str, settings: object, problems: Problems
) -> SettingsDefinition | None:
    """Return the settings that a workflow was given, or note what is wrong with them."""
    if settings is None:
        return None
    location = settings.location if isinstance(settings, Settings) else caller_location()

    def note(message: str) -> None:
        problems.add(ErrorCode.DEFINITION_INVALID, message, location=location)

    if not isinstance(settings, Settings):
        note("settings is what Settings(Model, initial=...) gives.")
        return None
    rules, wrong = _rules(settings)
    for broken in (*_broken(settings), *wrong):
        note(broken)
    try:
        codec = Codec(settings.model)
    except UndeclarableType as error:
        note(f"its settings have no JSON form: {error}")
        codec = ANY_JSON
    found = SettingsDefinition(
        workflow_name=workflow_name,
        codec=codec,
        initial=settings.initial,
        rules=rules,
        validate_change=settings.validate_change,
        location=location,
    )
    for broken in _misfits(settings, found):
        note(broken)
    return found


def _misfits(settings: Settings[Any], found: SettingsDefinition) -> Iterator[str]:
    """Yield what of a declaration does not fit its model."""
    shape = found.codec.stored_schema() if found.rules.paths else None
    for rule in found.rules.paths:
        if shape is not None and not leads_somewhere(shape, rule.tokens):
            label = found.codec.label
            yield f'the settings path "{rule.path}" leads nowhere: {label} has no such part.'
    if not callable(settings.initial):
        try:
            found.accept(settings.initial)
        except SettingsRejected as error:
            yield f"its initial settings do not fit: {error.why}"


def settings_type(given: object, known: SettingsDefinition | None) -> Any:  # noqa: ANN401
    """Return the type of what a workflow was given as settings; `Any` when it could not be read.

    Args:
        known: what `settings_definition` made of it.
    """
    if given is None:
        return UNDECLARED
    return Any if known is None else known.codec.declared


def _broken(settings: Settings[Any]) -> Iterator[str]:
    description: object = settings.description
    initial: object = settings.initial
    check: object = settings.validate_change
    if description is not None and not (isinstance(description, str) and description.strip()):
        yield "the description of settings is a text that is not empty, or None."
    if callable(initial) and not (takes(initial, 0) or takes(initial, 1)):
        yield "initial settings are a value, or a function of the input, or of nothing."
    for name, given in (("initial", initial), ("validate_change", check)):
        if callable(given) and (is_async(given) or yields(given)):
            yield f"{name} of settings is an ordinary function, neither async nor a generator."
    if check is not None and not (callable(check) and takes(check, 1)):
        yield "validate_change is a function of the SettingsChange that raises to refuse it."


def _rules(settings: Settings[Any]) -> tuple[SettingsRules, list[str]]:
    """Return the sound rules, and what is wrong with the others."""
    sound: dict[tuple[str, ...], PathRule] = {}
    wrong: list[str] = []
    paths: object = settings.paths
    if isinstance(paths, str) or not isinstance(paths, Sequence):
        return SettingsRules(()), ["paths of settings is a list of what allow(...) gives."]
    for given in paths:
        if not isinstance(given, Allow):
            wrong.append("paths of settings is a list of what allow(...) gives.")
            continue
        rule, broken = _rule(given)
        wrong += broken
        if rule is None:
            continue
        known = sound.setdefault(rule.tokens, rule)
        if known.actors != rule.actors:
            wrong.append(f'two rules for the settings path "{rule.path}" contradict each other.')
    return SettingsRules(tuple(sound.values()), settings.description), wrong


def _rule(given: Allow) -> tuple[PathRule | None, list[str]]:
    """Return a rule, and all that is wrong with it; None when something is."""
    wrong: list[str] = []
    try:
        pointer_tokens(given.path)
    except PointerInvalid as error:
        wrong.append(f"a settings path is wrong: {error}.")
    if not given.actors:
        wrong.append(f'allow("{given.path}") says nothing; give read=, add=, remove= or replace=.')
    actors: dict[Permission, frozenset[ActorType]] = {}
    for permission, names in given.actors.items():
        where = f'{permission.value} of the settings path "{given.path}"'
        listed = isinstance(names, Sequence) and not isinstance(names, str)
        if not listed or not names:
            wrong.append(f"{where} is a list of at least one actor.")
            continue
        try:
            actors[permission] = actors_of(names)
        except ValueError:
            wrong.append(f"{where} names an unknown actor; actors are: {_ACTORS}.")
    return None if wrong else PathRule(given.path, actors), wrong


def _model_says(broken: Sequence[tuple[str, str]]) -> str:
    """Return the rules of a model that settings break, one in a line."""
    return "\n  ".join(["its model says:", *(f"{path}: {rule}" for path, rule in broken)])
