"""What authoring refuses: one exception per kind, each with a stable `code`.

    AuthoringError
    ├── DefinitionError   the graph is wrong; carries every problem found
    ├── NotJsonError      a value has no JSON form under its declared type
    ├── InputRejected     the workflow's input model refuses the input
    ├── LoadError         a file is no workflow, or fails while it is imported
    ├── SourceUnknown     no workflow has this name or path
    ├── SettingsRejected  settings do not fit their model, or are too large
    ├── SettingsMissing   settings were asked for in a workflow that declares none
    ├── OutputMissing     a node was asked for an output it does not have
    ├── ExitUnknown       a mount was asked for an exit it does not have
    ├── EffectMissing     a node that declares no effect was asked for one
    ├── UpdateRefused     an update was not taken
    ├── ProcessRefused    a process was not taken into care, or not given back
    ├── BatchRefused      a command batch breaks a rule; none of its commands ran
    └── CardRefused       the card of a human decision breaks a rule

Texts name workflow, node or field, rule and fix, and never repeat payload text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pi_workflows.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Location:
    """A place in an author's file.

    Attributes:
        file: path as Python knows it.
        line: counted from 1.
    """

    file: str
    line: int

    @property
    def short(self) -> str:
        """`name.py:LINE`, without the folder."""
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a definition.

    Attributes:
        code: `DEFINITION_INVALID` or one of the graph codes (`EDGE_CASES`, …).
        subject: what is wrong, `workflow "fan", node "judge"`.
        message: the rule that is broken, one sentence.
        fix: what to do, one sentence; None when the message says it.
        location: where; None when no line of the author's is to blame.
    """

    code: str
    subject: str
    message: str
    fix: str | None = None
    location: Location | None = None

    @property
    def text(self) -> str:
        """The problem for people, one or two lines."""
        fix = "" if self.fix is None else f"\n  {self.fix}"
        place = "" if self.location is None else f" ({self.location.short})"
        return f"[{self.code}] {self.subject}: {self.message}{fix}{place}"


class AuthoringError(Exception):
    """Base of every refusal of this package.

    Attributes:
        code: stable name of the reason.
        message: text for people; `str()` may put the exception's name and code before it.
        detail: the author's part of the traceback, bounded; None when there is none.
    """

    detail: str | None = None

    def __init__(self, code: str, message: str, shown: str | None = None) -> None:
        super().__init__(message if shown is None else shown)
        self.code = code
        self.message = message


class DefinitionError(AuthoringError):
    """A workflow cannot be built.

    Attributes:
        problems: everything found, at least one, in the order of discovery.
        unfinished: the `Definition` as far as it goes, without nodes, so that what it includes can
            be checked too; None when nothing is known of that.
    """

    def __init__(self, problems: Sequence[Problem], unfinished: object = None) -> None:
        self.problems = tuple(problems)
        self.unfinished = unfinished
        texts = [problem.text for problem in self.problems]
        shown = "\n".join(f"DefinitionError {text}" for text in texts)
        super().__init__(self.problems[0].code, "\n".join(texts), shown)


class NotJsonError(AuthoringError):
    """A value cannot be stored as JSON and read back equal.

    Attributes:
        where: whose value, `node "fan" output`.
        path: place in the value, `$[2]`.
        got: kind of what stands there, never its text.
        declared: the declared type of the whole value.
    """

    def __init__(self, *, where: str, path: str, got: str, declared: str) -> None:
        self.where = where
        self.path = path
        self.got = got
        self.declared = declared
        message = f"{where} at {path}: got {got}, declared {declared}."
        code = ErrorCode.NOT_JSON
        super().__init__(code, message, f"NotJsonError [{code}] {message}")


class InputRejected(AuthoringError):
    """The input model refuses the input.

    Attributes:
        fields: (path, rule) per broken rule; the path is `input` for the whole value.
    """

    def __init__(
        self, workflow_name: str, fields: Sequence[tuple[str, str]], *, absent: bool = False
    ) -> None:
        """`absent` says that the input is null, as it is when none was given."""
        self.fields = tuple(fields)
        lines = [f"\n  {path}: {rule}" for path, rule in self.fields]
        rejected = "no input was given, and it needs one." if absent else "input rejected."
        message = f'workflow "{workflow_name}": {rejected}{"".join(lines)}'
        code = ErrorCode.INPUT_REJECTED
        super().__init__(code, message, f"InputRejected [{code}] {message}")


class LoadError(AuthoringError):
    """A file could not be read, imported, or holds no workflow.

    Attributes:
        file: the file to blame, which may be one that the workflow file imports.
        line: line in `file`, from 1; None when no line is to blame.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        file: str,
        line: int | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(code, message)
        self.file = file
        self.line = line
        self.detail = detail


class SourceUnknown(AuthoringError):
    """No workflow has this name or path.

    Attributes:
        reference: what was asked for.
        names: every workflow that can be named here, sorted.
        nearest: those of `names` that look like `reference`, best first.
    """

    def __init__(
        self,
        reference: str,
        message: str,
        *,
        names: Sequence[str] = (),
        nearest: Sequence[str] = (),
    ) -> None:
        super().__init__(ErrorCode.SOURCE_UNKNOWN, message)
        self.reference = reference
        self.names = tuple(names)
        self.nearest = tuple(nearest)


class SettingsRejected(AuthoringError):
    """Settings do not fit their model, would be altered by it, or are too large.

    Attributes:
        why: the rule that is broken, without the workflow's name.
    """

    def __init__(self, workflow_name: str, why: str) -> None:
        self.why = why
        code = ErrorCode.SETTINGS_REJECTED
        message = f'workflow "{workflow_name}": its settings are rejected: {why}'
        super().__init__(code, message, f"SettingsRejected [{code}] {message}")


class SettingsMissing(AuthoringError):
    """The workflow that this code belongs to declares no settings."""

    def __init__(self) -> None:
        text = "this workflow declares no settings; give it some: Workflow(settings=...)"
        super().__init__("SETTINGS_MISSING", text)


class OutputMissing(AuthoringError):
    """The node has not run in this run, or its latest attempt did not end `ok`."""

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        message = f'node "{node_id}" has no output here; ctx.get() gives None instead'
        super().__init__("OUTPUT_MISSING", message)


class EffectMissing(AuthoringError):
    """Only action and shell nodes have an effect."""

    def __init__(self) -> None:
        super().__init__("EFFECT_MISSING", "this node declares no effect")


class ExitUnknown(AuthoringError):
    """A context was asked by which exit a mount was left, and the mount has no such exit."""

    def __init__(self, mount: str, exit_: object, known: Iterable[str]) -> None:
        listed = ", ".join(known) or "none"
        message = f'mount "{mount}" has no exit {exit_!r}; it has: {listed}'
        super().__init__("EXIT_UNKNOWN", message, f"ExitUnknown [EXIT_UNKNOWN] {message}")


class UpdateRefused(AuthoringError):
    """An update was not taken; an action that does not catch this fails.

    Its code is `UPDATE_INVALID` (type, key or data break a rule), `UPDATE_RATE` (too many in a
    short time), `UPDATE_PAIRS` (too many types and keys in this run) or `UPDATE_REFUSED` (it comes
    from a node that may not publish, or came too late).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message, f"UpdateRefused [{code}] {message}")


class ProcessRefused(AuthoringError):
    """A process was not registered or not given back; an action that does not catch this fails."""

    def __init__(self, why: str) -> None:
        code = "PROCESS_REFUSED"
        super().__init__(code, why, f"ProcessRefused [{code}] {why}")


class BatchRefused(AuthoringError):
    """A command batch breaks a rule, or is asked for where none may run; nothing has started."""

    def __init__(self, why: str) -> None:
        code = "BATCH_REFUSED"
        super().__init__(code, why, f"BatchRefused [{code}] {why}")


class CardRefused(AuthoringError):
    """What a person is to see of a decision breaks a rule."""

    def __init__(self, why: str) -> None:
        code = "CARD_REFUSED"
        super().__init__(code, why, f"CardRefused [{code}] {why}")


class Problems:
    """Collects the problems of one workflow, so that its author sees them all at once."""

    def __init__(self, workflow_name: object) -> None:
        named = isinstance(workflow_name, str)
        self._workflow = f'workflow "{workflow_name}"' if named else "workflow without a name"
        self._found: list[Problem] = []

    def add(
        self,
        code: str,
        message: str,
        *,
        node: str | None = None,
        mount: str | None = None,
        exit_: str | None = None,
        fix: str | None = None,
        location: Location | None = None,
    ) -> None:
        """Note one problem, of what is named, else of the workflow."""
        parts = {"node": node, "mount": mount, "exit": exit_}
        named = [f', {kind} "{name}"' for kind, name in parts.items() if name is not None]
        subject = "".join([self._workflow, *named])
        self._found.append(
            Problem(code=code, subject=subject, message=message, fix=fix, location=location)
        )

    def adopt(self, found: Sequence[Problem]) -> None:
        """Note the problems of another workflow; those noted before are not said twice."""
        self._found += [problem for problem in found if problem not in self._found]

    @property
    def found(self) -> tuple[Problem, ...]:
        """All that was noted so far."""
        return tuple(self._found)

    def fail(self) -> NoReturn:
        """Raise what was found; there must be something."""
        raise DefinitionError(self._found)

    def fail_if_any(self) -> None:
        """Raise what was found, if anything was.

        Raises:
            DefinitionError: with all of it.
        """
        if self._found:
            self.fail()

    def copy(self) -> "Problems":
        """Return a collector that starts with the same problems."""
        twin = Problems(None)
        twin._workflow, twin._found = self._workflow, list(self._found)
        return twin

    def __bool__(self) -> bool:
        return bool(self._found)
