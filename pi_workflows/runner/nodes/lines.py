"""Lines of a command's output as they come, and the updates that are found in them."""

from collections.abc import Callable
from typing import Final

from pi_workflows.authoring.callables import takes
from pi_workflows.authoring.updates import LineParser, Update, UpdateLines, said_updates

LINE_BYTES_MAX: Final = 65_536
"""Longest line that is read for updates, in bytes without its end."""


class LineUnreadable(Exception):
    """A line is too long or no UTF-8."""


class LineReader:
    """Finds whole lines in the streams that are read for updates, and publishes what they say.

    Args:
        wanted: the node's parser, and which streams it reads.
        publish: called once per update, in the order of the lines of a stream; it may raise.
    """

    def __init__(self, wanted: UpdateLines, publish: Callable[[Update], None]) -> None:
        parser = wanted.parser
        self._parse: Final[LineParser] = (
            (lambda line, _stream: parser(line)) if takes(parser, 1) else parser
        )
        self._publish: Final = publish
        self._pending: Final[dict[str, bytes]] = dict.fromkeys(wanted.streams, b"")

    def feed(self, stream: str, data: bytes, *, final: bool = False) -> None:
        """Take the next bytes of a stream; `final` makes a line of what has no end.

        Raises:
            LineUnreadable: a line is longer than 64 KiB, or no UTF-8.
            BaseException: what the parser or the publishing raised.
        """
        if stream not in self._pending:
            return
        *lines, rest = (self._pending[stream] + data).split(b"\n")
        if final and rest:
            lines, rest = [*lines, rest], b""
        self._pending[stream] = rest
        for line in lines:
            self._take(stream, line)
        if len(rest) > LINE_BYTES_MAX:
            raise _too_long(stream)

    def _take(self, stream: str, line: bytes) -> None:
        if len(line) > LINE_BYTES_MAX:
            raise _too_long(stream)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise LineUnreadable(
                f"a line of {stream} that is read for updates is no UTF-8"
            ) from error
        for update in said_updates(self._parse(text.removesuffix("\r"), stream)):
            self._publish(update)


def _too_long(stream: str) -> LineUnreadable:
    return LineUnreadable(
        f"a line of {stream} that is read for updates is longer than {LINE_BYTES_MAX} bytes"
    )
