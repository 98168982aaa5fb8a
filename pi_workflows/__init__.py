"""The authoring API, re-exported lazily so that other parts load without pydantic."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pi_workflows.authoring import Absent as Absent
    from pi_workflows.authoring import After as After
    from pi_workflows.authoring import Allow as Allow
    from pi_workflows.authoring import Applied as Applied
    from pi_workflows.authoring import AuthoringError as AuthoringError
    from pi_workflows.authoring import BatchCommand as BatchCommand
    from pi_workflows.authoring import BatchItemResult as BatchItemResult
    from pi_workflows.authoring import BatchKind as BatchKind
    from pi_workflows.authoring import BatchOutcome as BatchOutcome
    from pi_workflows.authoring import BatchRefused as BatchRefused
    from pi_workflows.authoring import Block as Block
    from pi_workflows.authoring import Card as Card
    from pi_workflows.authoring import CardRefused as CardRefused
    from pi_workflows.authoring import Choice as Choice
    from pi_workflows.authoring import Choices as Choices
    from pi_workflows.authoring import Command as Command
    from pi_workflows.authoring import CommandBatchResult as CommandBatchResult
    from pi_workflows.authoring import ControlRoute as ControlRoute
    from pi_workflows.authoring import Ctx as Ctx
    from pi_workflows.authoring import Definition as Definition
    from pi_workflows.authoring import DefinitionError as DefinitionError
    from pi_workflows.authoring import EffectIdentity as EffectIdentity
    from pi_workflows.authoring import EffectMissing as EffectMissing
    from pi_workflows.authoring import EffectSpec as EffectSpec
    from pi_workflows.authoring import Exit as Exit
    from pi_workflows.authoring import ExitUnknown as ExitUnknown
    from pi_workflows.authoring import HumanAnswer as HumanAnswer
    from pi_workflows.authoring import InputRejected as InputRejected
    from pi_workflows.authoring import Mount as Mount
    from pi_workflows.authoring import MountExit as MountExit
    from pi_workflows.authoring import Node as Node
    from pi_workflows.authoring import Notified as Notified
    from pi_workflows.authoring import NotJsonError as NotJsonError
    from pi_workflows.authoring import Observation as Observation
    from pi_workflows.authoring import OutputMissing as OutputMissing
    from pi_workflows.authoring import Problem as Problem
    from pi_workflows.authoring import ProcessRefused as ProcessRefused
    from pi_workflows.authoring import Retry as Retry
    from pi_workflows.authoring import RetryLater as RetryLater
    from pi_workflows.authoring import Route as Route
    from pi_workflows.authoring import Settings as Settings
    from pi_workflows.authoring import SettingsChange as SettingsChange
    from pi_workflows.authoring import SettingsMissing as SettingsMissing
    from pi_workflows.authoring import SettingsRejected as SettingsRejected
    from pi_workflows.authoring import ShellResult as ShellResult
    from pi_workflows.authoring import StepResult as StepResult
    from pi_workflows.authoring import TextInput as TextInput
    from pi_workflows.authoring import Unknown as Unknown
    from pi_workflows.authoring import Unlimited as Unlimited
    from pi_workflows.authoring import Update as Update
    from pi_workflows.authoring import UpdateLines as UpdateLines
    from pi_workflows.authoring import UpdateRefused as UpdateRefused
    from pi_workflows.authoring import Workflow as Workflow
    from pi_workflows.authoring import absent as absent
    from pi_workflows.authoring import allow as allow
    from pi_workflows.authoring import applied as applied
    from pi_workflows.authoring import bullets as bullets
    from pi_workflows.authoring import choice as choice
    from pi_workflows.authoring import fields as fields
    from pi_workflows.authoring import idempotent as idempotent
    from pi_workflows.authoring import manual as manual
    from pi_workflows.authoring import observe as observe
    from pi_workflows.authoring import paragraph as paragraph
    from pi_workflows.authoring import preformatted as preformatted
    from pi_workflows.authoring import progress as progress
    from pi_workflows.authoring import section as section
    from pi_workflows.authoring import text_input as text_input
    from pi_workflows.authoring import unknown as unknown

__all__ = [
    "Absent",
    "After",
    "Allow",
    "Applied",
    "AuthoringError",
    "BatchCommand",
    "BatchItemResult",
    "BatchKind",
    "BatchOutcome",
    "BatchRefused",
    "Block",
    "Card",
    "CardRefused",
    "Choice",
    "Choices",
    "Command",
    "CommandBatchResult",
    "ControlRoute",
    "Ctx",
    "Definition",
    "DefinitionError",
    "EffectIdentity",
    "EffectMissing",
    "EffectSpec",
    "Exit",
    "ExitUnknown",
    "HumanAnswer",
    "InputRejected",
    "Mount",
    "MountExit",
    "Node",
    "NotJsonError",
    "Notified",
    "Observation",
    "OutputMissing",
    "Problem",
    "ProcessRefused",
    "Retry",
    "RetryLater",
    "Route",
    "Settings",
    "SettingsChange",
    "SettingsMissing",
    "SettingsRejected",
    "ShellResult",
    "StepResult",
    "TextInput",
    "Unknown",
    "Unlimited",
    "Update",
    "UpdateLines",
    "UpdateRefused",
    "Workflow",
    "absent",
    "allow",
    "applied",
    "bullets",
    "choice",
    "fields",
    "idempotent",
    "manual",
    "observe",
    "paragraph",
    "preformatted",
    "progress",
    "section",
    "text_input",
    "unknown",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pi_workflows import authoring  # noqa: PLC0415 - at first use: it brings pydantic along

    return getattr(authoring, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
