"""The strings that this process was started with, as others read them in /proc, changed in place.

A forked child shows the arguments and the environment of the program that forked it, whatever it
does to `os.environ`: /proc reads the memory where exec has put them. Who a child is, and which
processes are its own, is told by exactly these strings; so they are overwritten where they lie.
"""

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, final

_SELF: Final = Path("/proc/self")
# Numbers of proc(5), which counts from 1; the fields are cut after the second.
_ARGUMENTS_START: Final = 48 - 3
_ENVIRONMENT_START: Final = 50 - 3


class StringTooLong(ValueError):
    """What is to be shown does not fit in the place that exec has left for it."""


@final
@dataclass(frozen=True, slots=True)
class ExecString:
    """One of these strings.

    Attributes:
        address: where it lies in this process's memory, and in that of each forked child.
        original: as exec has put it there.
    """

    address: int
    original: bytes

    @classmethod
    def of_setting(cls, variable: str) -> Self:
        """Find the value of an environment variable that this process was started with.

        Raises:
            LookupError: there was none.
            OSError: /proc cannot be read.
        """
        prefix = f"{variable}=".encode()
        for offset, string in _strings("environ"):
            if string.startswith(prefix):
                start = _start_of(_ENVIRONMENT_START) + offset + len(prefix)
                return cls(start, string.removeprefix(prefix))
        raise LookupError(f"this process was started without {variable}")

    @classmethod
    def of_argument(cls, argument: str) -> Self:
        """Find an argument that this process was started with.

        Raises:
            LookupError: there was none.
            OSError: /proc cannot be read.
        """
        for offset, string in _strings("cmdline"):
            if string == argument.encode():
                return cls(_start_of(_ARGUMENTS_START) + offset, string)
        raise LookupError(f"this process was started without the argument {argument}")

    def show(self, text: str) -> None:
        """Put `text` in the place; what is left of it becomes empty strings.

        Raises:
            StringTooLong: it is longer than the original; nothing was changed.
        """
        string = text.encode()
        if len(string) > len(self.original):
            raise StringTooLong(f"{text} is longer than {len(self.original)} bytes")
        self._put(string.ljust(len(self.original), b"\0"))

    def restore(self) -> None:
        """Put the original back."""
        self._put(self.original)

    def _put(self, string: bytes) -> None:
        ctypes.memmove(self.address, string, len(string))


def _strings(name: str) -> list[tuple[int, bytes]]:
    """Return the strings of a file of /proc with the offset of each."""
    found = []
    offset = 0
    for string in (_SELF / name).read_bytes().split(b"\0"):
        found.append((offset, string))
        offset += len(string) + 1
    return found


def _start_of(field: int) -> int:
    stat = (_SELF / "stat").read_bytes()
    # The second field is the program's name in parentheses and may hold spaces and parentheses.
    return int(stat[stat.rindex(b")") + 2 :].split()[field])
