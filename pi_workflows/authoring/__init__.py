"""The authoring API: write workflows as decorated functions and typed edges between them."""

from pi_workflows.authoring.answers import (
    After,
    Choice,
    Choices,
    HumanAnswer,
    TextInput,
    choice,
    text_input,
)
from pi_workflows.authoring.budgets import Unlimited
from pi_workflows.authoring.card import (
    Block,
    Card,
    bullets,
    fields,
    paragraph,
    preformatted,
    section,
)
from pi_workflows.authoring.command_batch import (
    BatchCommand,
    BatchItemResult,
    BatchKind,
    BatchOutcome,
    CommandBatchResult,
)
from pi_workflows.authoring.context import Ctx, EffectIdentity, StepResult
from pi_workflows.authoring.control_loop import ControlRoute
from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.effects import EffectSpec, idempotent, manual, observe
from pi_workflows.authoring.errors import (
    AuthoringError,
    BatchRefused,
    CardRefused,
    DefinitionError,
    EffectMissing,
    ExitUnknown,
    InputRejected,
    NotJsonError,
    OutputMissing,
    Problem,
    ProcessRefused,
    SettingsMissing,
    SettingsRejected,
    UpdateRefused,
)
from pi_workflows.authoring.handles import Exit, Mount, MountExit, Node
from pi_workflows.authoring.notice import Notified
from pi_workflows.authoring.observation import (
    Absent,
    Applied,
    Observation,
    Unknown,
    absent,
    applied,
    unknown,
)
from pi_workflows.authoring.retry import Retry, RetryLater
from pi_workflows.authoring.route import Route
from pi_workflows.authoring.settings import Allow, Settings, SettingsChange, allow
from pi_workflows.authoring.shell import Command, ShellResult
from pi_workflows.authoring.updates import Update, UpdateLines, progress
from pi_workflows.authoring.workflow import Workflow

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
