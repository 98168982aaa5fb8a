"""Forgets the workflow files that a simulation has loaded: thousands of them would pile up."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from pi_workflows.chaos.simulated_sources import PROJECT


@contextmanager
def modules_forgotten() -> Generator[None]:
    """Remove what is loaded from the simulated project meanwhile, and restore the import path."""
    before, path = frozenset(sys.modules), list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in sys.modules.keys() - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(PROJECT)):
                del sys.modules[name]
