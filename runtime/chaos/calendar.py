"""Stands for `datetime` where today is not to be known; a date that is written down stays one.

The real classes are built in: nothing in them can be replaced. So each gets a class that stands
for it in the author's files. It makes real values, and real values count as its own.
"""

import datetime as dt
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Final

from typing_extensions import override

_ASKING: Final = {dt.datetime: ("now", "utcnow", "today"), dt.date: ("today",)}

RequireAllowed = Callable[[FrameType, str, str], None]


class _StandsFor(type):
    """The class of the classes that stand for others."""

    real: type

    @override
    def __call__(cls, *args: object, **kwargs: object) -> object:
        """Make a real value; of a class that the author has derived, one of that."""
        if "real" in vars(cls):
            return cls.real(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    @override
    def __instancecheck__(cls, instance: object) -> bool:
        """Say whether a value is one of the real class."""
        return isinstance(instance, cls.real)

    @override
    def __subclasscheck__(cls, other: type) -> bool:
        """Say whether a class is derived from the real one."""
        return issubclass(other, cls.real)


def calendar_stand_ins(require_allowed: RequireAllowed) -> list[tuple[object, object]]:
    """Return the classes of `datetime` that know what day it is, and the module, with a stand-in.

    Args:
        require_allowed: is asked with the calling frame, what is called, and "time"; raises if it
            must not be.
    """
    classes = [_stand_in(real, names, require_allowed) for real, names in _ASKING.items()]
    module = ModuleType(dt.__name__, dt.__doc__)
    vars(module).update(vars(dt))
    for real, stand_in in zip(_ASKING, classes, strict=True):
        setattr(module, real.__name__, stand_in)
    return [*zip(_ASKING, classes, strict=True), (dt, module)]


def _stand_in(real: type, names: tuple[str, ...], require_allowed: RequireAllowed) -> type:
    def asking(name: str) -> object:
        def asked(*args: object, **kwargs: object) -> object:
            frame = sys._getframe(1)  # noqa: SLF001 - the line is the point of the refusal
            require_allowed(frame, f"{real.__name__}.{name}", "time")
            return getattr(real, name)(*args, **kwargs)

        return staticmethod(asked)

    members = {"real": real, "__module__": real.__module__, "__doc__": real.__doc__}
    return _StandsFor(real.__name__, (real,), members | {name: asking(name) for name in names})
