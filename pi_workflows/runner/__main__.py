"""Entry of a runner child: `python -P -m pi_workflows.runner --fd N`."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from pi_workflows.runner.child import ChildOptions, run_child
from pi_workflows.runner.entry import take_connection


def main(arguments: Sequence[str], options: ChildOptions | None = None) -> NoReturn:
    """Run one child to its end.

    Args:
        arguments: `--fd N`, the inherited end of the socket pair.
        options: bounds that tests shorten; None is the product's own.
    """
    run_child(take_connection("pi_workflows.runner", arguments), options or ChildOptions())


if __name__ == "__main__":
    main(sys.argv[1:])
