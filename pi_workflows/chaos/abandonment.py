"""What the processes that the harness starts have in common: where they answer, how they end.

Standard input belongs to whoever has started one. When it ends, that one is gone or has had
enough: what runs is interrupted, so that it can remove its folders and end its processes, and soon
the process ends, whatever it is doing.
"""

import _thread
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, TextIO

ABANDONED: Final = 3
"""Exit code of a process that nobody waits for any more."""

GRACE_S: Final = 2.0
"""How long what runs may take to clean up."""


def answers_alone() -> TextIO:
    """Return what answers are written to: standard output, as it was.

    What a scenario or a library prints goes to standard error from now on, so that nothing gets
    between the answers.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def end_with_input(take: Callable[[str], None]) -> None:
    """From now on hand each line of standard input to `take`, in a thread; end with the last.

    The main thread is interrupted then; see `until_abandoned`.
    """
    threading.Thread(target=_read, args=(take,), daemon=True).start()


def until_abandoned(main: Callable[[], None]) -> None:
    """Run `main`; an interrupt ends the process at once, and without a word."""
    try:
        main()
    except KeyboardInterrupt:
        sys.stderr.flush()
        os._exit(ABANDONED)


def _read(take: Callable[[str], None]) -> None:
    for line in sys.stdin:
        take(line)
    _thread.interrupt_main()
    time.sleep(GRACE_S)
    os._exit(ABANDONED)
