"""Who waits for the store actor: a command, and the place where its outcome goes."""

from dataclasses import dataclass
from typing import Any, Protocol

from store.batch import Command
from store.damage import StateDamaged
from store.errors import StateIncompatibleError
from store.transaction import Transaction


class Asking(Protocol):
    """Somebody who waits for a command; a letter of the mailbox is one."""

    @property
    def message(self) -> Command[Any]:
        """The command."""
        ...

    def answer(self, reply: Any) -> None:  # noqa: ANN401 - whatever the command returns
        """Hand over what the command returned, once it is durable."""
        ...

    def refuse(self, error: Exception) -> None:
        """Hand over why it was not carried out, or that nobody knows."""
        ...


@dataclass(frozen=True, slots=True)
class LongCommand:
    """A command that does not run on the loop; it passes through the inbox like any other."""

    command: Command[Any]

    def __call__(self, _tx: Transaction) -> object:
        """Never happens: whoever takes it runs `command` elsewhere."""
        raise AssertionError("a long command was taken for a short one")


def own_copy(fault: Exception) -> Exception:
    """Give each caller an exception object of its own, so that no traceback is shared."""
    return type(fault)(*fault.args) if isinstance(fault, StateIncompatibleError) else type(fault)()


def as_exception(cause: BaseException) -> Exception:
    """Return what its caller is told; damage is nobody's own and ends the store."""
    if isinstance(cause, StateDamaged):
        raise cause
    return cause if isinstance(cause, Exception) else RuntimeError("the command was interrupted")
