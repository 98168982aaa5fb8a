"""A child that runs the script in its environment; `fd` is its end of the socket pair."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the script, then end like a program."""
    code: object = 0
    try:
        exec(os.environ["SCRIPT"], {"__name__": "script", "fd": int(arguments[1])})  # noqa: S102
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
