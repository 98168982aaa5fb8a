"""What an operating system's process table says about one process."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """One process at the moment of reading.

    Attributes:
        pid: Its id.
        start_identity: Text that differs for every process that ever has this id.
        session_id: The id of its session, which is the session leader's process id.
        has_ended: It is a zombie: ended, not yet reaped by its parent.
    """

    pid: int
    start_identity: str
    session_id: int
    has_ended: bool
