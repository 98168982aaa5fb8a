"""Rules for single declared values (B §1.1, §1.4): each returns the broken rule, or None."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pi_workflows.authoring.callables import is_async, takes, with_context, yields
from pi_workflows.protocol.canonical import INTEGER_MAX
from pi_workflows.protocol.definition import OUTCOME_PATH
from pi_workflows.protocol.labels import is_label
from pi_workflows.protocol.states import StepOutcome

RESERVED_NAMES: Final = frozenset(
    {
        "answer",
        "cancel",
        "change-settings",
        "list",
        "pause",
        "queue-follow-up",
        "remove-follow-up",
        "restart",
        "resume",
        "status",
    }
)
NAME_CHARS_MAX: Final = 128
"""Longest name of a node, mount, exit or route."""

STATUS_DETAIL_CHARS_MAX: Final = 1_000

_WORKFLOW_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CONTRACT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_NODE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_DUNDER: Final = re.compile(r"__.*__")
_ENGINE_PREFIX: Final = "__piw_"
_SWITCH_PATH: Final = re.compile(r"\$(?:output|result)?(?:\.[^.]+)+")
_ROUTED_OUTCOMES: Final = frozenset({StepOutcome.OK, StepOutcome.FAILED, StepOutcome.TIMED_OUT})


def workflow_name_rule(name: object) -> str | None:
    """Check a workflow's name."""
    if not isinstance(name, str) or _WORKFLOW_NAME.fullmatch(name) is None:
        return (
            "a name is 1 to 128 of A-Z a-z 0-9 . _ - and starts with a letter or digit; "
            'write Workflow("my-name", ...).'
        )
    if name in RESERVED_NAMES:
        return "this name is reserved for a command; choose another."
    return None


def contract_id_rule(contract_id: object) -> str | None:
    """Check a contract id; None is fine."""
    if contract_id is None:
        return None
    if not isinstance(contract_id, str) or _CONTRACT_ID.fullmatch(contract_id) is None:
        return "contract_id is 1 to 128 of A-Z a-z 0-9 . _ : - and starts with a letter or digit."
    return None


def node_name_rule(name: object, kind: str = "a node") -> str | None:
    """Check the name of a node, or of a mount, exit or route, as `kind` says."""
    if not isinstance(name, str) or _NODE_NAME.fullmatch(name) is None:
        return f"{kind} is named by letters, digits, _ and -, starting with a letter or _."
    if len(name) > NAME_CHARS_MAX:
        return f"the name of {kind} has at most {NAME_CHARS_MAX} characters."
    if name.startswith(_ENGINE_PREFIX):
        return f"names starting with {_ENGINE_PREFIX} belong to the engine; choose another."
    if _DUNDER.fullmatch(name) is not None:
        return "a name between double underscores is not allowed; choose another."
    return None


def positive_rule(number: object, name: str = "it") -> str | None:
    """Check a whole number that has to be above 0; `name` is what the text calls it."""
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or not 1 <= number <= INTEGER_MAX:  # type: ignore[operator]
        return f"{name} is a whole number of at least 1."
    return None


def max_steps_rule(max_steps: object) -> str | None:
    """Check a step bound."""
    return positive_rule(max_steps, "max_steps")


def title_rule(title: object) -> str | None:
    """Check a title; None is fine."""
    if title is None or isinstance(title, str):
        return None
    if callable(title) and (takes(title, 1) or takes(title, 2)):
        return None
    return "title is text or a function of (input) or (input, name)."


def presentation_prompt_rule(prompt: object) -> str | None:
    """Check a presentation prompt; None is fine."""
    if prompt is None or isinstance(prompt, str) or (callable(prompt) and takes(prompt, 2)):
        return None
    return "presentation_prompt is text or a function of (input, final output)."


def source_rule(source: object) -> str | None:
    """Check a declared source; None is fine."""
    if source is None or isinstance(source, str | Path):
        return None
    return "source is the path of the workflow's own file; write source=__file__."


def callable_rule(fn: object, decorator: str) -> str | None:
    """Check that a decorator stands on a function."""
    if callable(fn):
        return None
    return f"@wf.{decorator}(...) decorates a function, not a {type(fn).__name__}."


def function_rule(fn: Callable[..., Any]) -> str | None:
    """Check the function of a node."""
    if with_context(fn) is None:
        return "the function takes one argument, the context, or none."
    if yields(fn):
        return "the function yields; it has to return its output."
    return None


def status_detail_rule(status_detail: object) -> str | None:
    """Check a status detail; None is fine."""
    if status_detail is None:
        return None
    if not isinstance(status_detail, str):
        return "status_detail is text."
    if len(status_detail) > STATUS_DETAIL_CHARS_MAX or not is_label(status_detail):
        return (
            f"status_detail is a line of at most {STATUS_DETAIL_CHARS_MAX} characters, "
            "without control characters."
        )
    return None


def request_rule(request: object) -> str | None:
    """Check the request callback of an action; None is fine."""
    if request is None:
        return None
    if callable(request) and with_context(request) is not None and not yields(request):
        return None
    return "request is a function that takes the context, or nothing, and does not yield."


def parse_rule(parse: object) -> str | None:
    """Check the parser of a shell node; None is fine."""
    if parse is None:
        return None
    if not callable(parse) or not takes(parse, 1):
        return "parse is a function of the ShellResult."
    if is_async(parse) or yields(parse):
        return "parse is an ordinary function, neither async nor a generator."
    return None


def nonzero_exit_rule(allow_nonzero_exit: object) -> str | None:
    """Check the exit code switch of a shell node."""
    return None if isinstance(allow_nonzero_exit, bool) else "allow_nonzero_exit is a bool."


def output_chars_rule(max_output_chars: object) -> str | None:
    """Check the output bound of a shell node."""
    return positive_rule(max_output_chars, "max_output_chars")


def switch_path_rule(on: object) -> str | None:
    """Check the path of a switch."""
    if isinstance(on, str) and _SWITCH_PATH.fullmatch(on) is not None:
        return None
    return 'a switch reads a path below "$.", "$output." or "$result.", such as "$.status".'


def outcome_cases_rule(on: str, cases: Mapping[str, object]) -> str | None:
    """Check the cases of a switch on the outcome."""
    if on != OUTCOME_PATH:
        return None
    if StepOutcome.CANCELLED in cases:
        return "a cancelled step ends the run and never routes; remove this case."
    unknown = sorted(case for case in cases if case not in _ROUTED_OUTCOMES)
    if unknown:
        return f'no step ends "{unknown[0]}"; outcomes are ok, failed and timed_out.'
    return None


def mapper_rule(mapper: object, name: str = "input", gives: str = "input") -> str | None:
    """Check a mapper of an include; None is fine.

    Args:
        name: of the argument.
        gives: what of the child's it makes.
    """
    if mapper is None:
        return None
    if not callable(mapper) or with_context(mapper) is None:
        return (
            f"{name} is a function of the context, or of nothing, that gives the child's {gives}."
        )
    if is_async(mapper) or yields(mapper):
        return f"{name} is an ordinary function, neither async nor a generator."
    return None


def validator_rule(validate: object) -> str | None:
    """Check the validator of an exit; None is fine."""
    if validate is None:
        return None
    if not callable(validate) or not takes(validate, 1):
        return "validate is a function of the output that returns it, or raises."
    if is_async(validate) or yields(validate):
        return "validate is an ordinary function, neither async nor a generator."
    return None
