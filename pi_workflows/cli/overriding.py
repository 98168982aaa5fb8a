"""`typing.override` for Python 3.11, without the 30 ms of importing `typing_extensions`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method: object) -> object:
        """Mark a method as overriding; only type checkers read it."""
        return method


__all__ = ["override"]
