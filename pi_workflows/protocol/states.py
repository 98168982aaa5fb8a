"""Every closed set of names that is stored or sent, spelled as stored and sent."""

import enum


class RunStatus(enum.StrEnum):
    """Life of a run; the moves between states live in `store.machines.run`."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """True when nothing can move the run any more."""
        return self in TERMINAL_RUN_STATUSES


TERMINAL_RUN_STATUSES = frozenset(
    {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED}
)


class QueueStatus(enum.StrEnum):
    """Where the run stands with the scheduler."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PARKED = "parked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptStatus(enum.StrEnum):
    """Life of one try of one node."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class StepOutcome(enum.StrEnum):
    """How a recorded step ended, as routing and projections name it."""

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


OUTCOME_OF_ATTEMPT = {
    AttemptStatus.COMPLETED: StepOutcome.OK,
    AttemptStatus.FAILED: StepOutcome.FAILED,
    AttemptStatus.TIMED_OUT: StepOutcome.TIMED_OUT,
    AttemptStatus.CANCELLED: StepOutcome.CANCELLED,
}
ATTEMPT_OF_OUTCOME = {outcome: status for status, outcome in OUTCOME_OF_ATTEMPT.items()}


class EffectStatus(enum.StrEnum):
    """Life of an outbox row; `ambiguous` is honest, not terminal."""

    PENDING = "pending"
    APPLYING = "applying"
    APPLIED = "applied"
    REJECTED = "rejected"
    AMBIGUOUS = "ambiguous"
    CANCELLED = "cancelled"


class EffectAttemptOutcome(enum.StrEnum):
    """How one numbered try of an effect ended."""

    APPLIED = "applied"
    REJECTED = "rejected"
    AMBIGUOUS = "ambiguous"
    INTERRUPTED = "interrupted"


class EffectScope(enum.StrEnum):
    """Who carries an effect out."""

    RUN = "run"
    CONTROLLER = "controller"
    CHANNEL = "channel"
    SYSTEM = "system"


class RecoveryKind(enum.StrEnum):
    """What may be done with an effect whose outcome a crash hid."""

    IDEMPOTENT = "idempotent"
    OBSERVE = "observe"
    MANUAL = "manual"


class WorkerStatus(enum.StrEnum):
    """Life of one runner child; exactly one of the last six is recorded at its end."""

    STARTING = "starting"
    READY = "ready"
    RUNNING = "running"
    EXITED = "exited"
    CANCELLED = "cancelled"
    TIMED_OUT = "timedOut"
    CRASHED = "crashed"
    CLAIM_LOST = "claimLost"
    ORPHANED = "orphaned"


class WorkerMessageOutcome(enum.StrEnum):
    """Answer to one runner message."""

    ACCEPTED = "accepted"
    ADOPTED = "adopted"
    REJECTED = "rejected"
    CLAIM_LOST = "claimLost"


class RunnerCommand(enum.StrEnum):
    """What a runner that says hello is told (README 29)."""

    START = "start"
    RESUME = "resume"
    RESTART = "restart"


class CommandOutcome(enum.StrEnum):
    """Answer to one client request (C §2, a closed set)."""

    ACCEPTED = "accepted"
    ADOPTED = "adopted"
    REJECTED = "rejected"
    CONFLICT = "conflict"
    NOT_FOUND = "notFound"
    CLAIM_LOST = "claimLost"
    UNAVAILABLE = "unavailable"


class ActorType(enum.StrEnum):
    """Who makes a change."""

    SESSION = "session"
    HOST = "host"
    CONTROLLER = "controller"
    CHANNEL = "channel"
    HUMAN = "human"
    POLICY = "policy"
    CONTROL = "control"
    SYSTEM = "system"


class OwnerType(enum.StrEnum):
    """Who may hold a lease."""

    SESSION = "session"
    HOST = "host"
    CONTROLLER = "controller"
    CHANNEL = "channel"
    SYSTEM = "system"


class ResourceType(enum.StrEnum):
    """Kinds of aggregate that have one revision counter."""

    RUN = "run"
    SESSION = "session"
    DECISION = "decision"
    CONTROLLER = "controller"
    EFFECT = "effect"
    CHANNEL = "channel"
    SETTINGS = "settings"
    FOLLOW_UP = "follow_up"
    WORKFLOW_MESSAGE = "workflow_message"
    MAINTENANCE = "maintenance"


class MessageKind(enum.StrEnum):
    """What a message to a conversation is about."""

    STEP = "step"
    DECISION = "decision"
    NOTIFICATION = "notification"
    TERMINAL = "terminal"
    FOLLOW_UP = "followUp"


class MessageStatus(enum.StrEnum):
    """Where a message to a conversation stands; `sent` is told by the conversation itself."""

    PENDING = "pending"
    SENT = "sent"
    CANCELLED = "cancelled"


class FollowUpStatus(enum.StrEnum):
    """What is stored of a follow-up."""

    QUEUED = "queued"
    REMOVED = "removed"
    CANCELLED = "cancelled"


class FollowUpState(enum.StrEnum):
    """What people are told of a follow-up; it is derived, never stored."""

    QUEUED = "queued"
    PENDING_PRESENTATION = "pending_presentation"
    READY = "ready"
    SENT = "sent"
    REMOVED = "removed"
    CANCELLED = "cancelled"


class QueuePresentation(enum.StrEnum):
    """How far a run's result has been presented, which its follow-ups wait for; derived."""

    NONE = "none"
    PENDING = "pending"
    SETTLED = "settled"
    UNAVAILABLE = "unavailable"
    NOT_NEEDED = "not-needed"


class NodeType(enum.StrEnum):
    """Kinds of node that a definition may hold."""

    AGENT = "agent"
    COMPUTE = "compute"
    ACTION = "action"
    SHELL = "shell"
    NOTIFY = "notify"
    CHECKPOINT = "checkpoint"
    HUMAN = "human"


class MountRole(enum.StrEnum):
    """What a transition of an included workflow does."""

    ENTRY = "entry"
    EXIT = "exit"


class ExecutionMode(enum.StrEnum):
    """Whether a run belongs to a conversation."""

    INTERACTIVE = "interactive"
    HEADLESS = "headless"


class DisplayStatus(enum.StrEnum):
    """The one word a person sees for a run (README 1, first match wins)."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    AMBIGUOUS = "ambiguous"


class ParkReason(enum.StrEnum):
    """Why a parked run is not claimed by itself (`run_queue.error_code`)."""

    SOURCE_CHANGED = "workflowSourceChanged"
    NO_PROGRESS = "runnerNoProgress"
    EFFECT_AMBIGUOUS = "effectAmbiguous"
    SETTINGS_BROKEN = "settingsChainBroken"
    CRASHED = "runnerCrashed"
    TIMED_OUT = "runnerTimedOut"
    PROTOCOL_REJECTED = "protocolRejected"
    HANDOFF = "handoff"
    RETRY_BACKOFF = "retryBackoff"
