"""Resolver child: `python -P -m pi_workflows.runner.resolver --fd N`.

Answers one `pi-workflows.resolve-request.v1`: first that foreign code runs from now on, then, with
one frame, a workflow that may start, with its identity, snapshot, normalised input and title, or
why it may not. Or one `pi-workflows.settings-check.v1`: whether a workflow accepts a change of its
settings. Or one `pi-workflows.inspect-request.v1`: see `inspection`. It writes nothing anywhere.
"""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Coroutine, Sequence
from collections.abc import Set as AbstractSet
from inspect import iscoroutine
from pathlib import Path
from typing import Any, Final, NoReturn

from pi_workflows.authoring.broken_models import traceback_text
from pi_workflows.authoring.definition import Definition
from pi_workflows.authoring.errors import AuthoringError, DefinitionError, NotJsonError
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import (
    FrameDecoder,
    FrameError,
    FrameTooLarge,
    encode_frame,
    parse_canonical,
)
from pi_workflows.protocol.labels import is_label
from pi_workflows.protocol.states import NodeType
from pi_workflows.protocol.version import (
    INSPECT_REQUEST,
    RESOLVE_LOADING,
    RESOLVE_REQUEST,
    SETTINGS_CHECK,
)
from pi_workflows.runner import late_loading
from pi_workflows.runner.author_errors import describe
from pi_workflows.runner.bounded_calls import within
from pi_workflows.runner.entry import EXIT_CHANNEL_LOST, EXIT_DONE, take_connection
from pi_workflows.runner.inspection import inspect_workflow
from pi_workflows.runner.messages import bounded_text
from pi_workflows.runner.settings_check import check_settings
from pi_workflows.runner.sources import DISK_SOURCES, Sources
from pi_workflows.runner.whole import load_whole

TITLE_TIMEOUT_S: Final = 30.0
"""Bound of the callbacks that make a run's title and its initial settings."""

TITLE_CHARS_MAX: Final = 200
"""A title is a label in lists."""

_READ_BYTES: Final = 65_536


class _Refused(Exception):
    """The request cannot become a run."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def resolve(
    request: JsonObject,
    *,
    title_timeout_s: float = TITLE_TIMEOUT_S,
    sources: Sources = DISK_SOURCES,
) -> JsonObject:
    """Turn a request into its answer; foreign code runs on the way.

    Args:
        request: `pi-workflows.resolve-request.v1`; or `pi-workflows.settings-check.v1`, see
            `settings_check`; or `pi-workflows.inspect-request.v1`, see `inspection`.
        title_timeout_s: a callback that makes the title or the initial settings and takes longer
            is refused; it may go on running.

    Returns:
        `{"outcome":"resolved",…}` or `{"outcome":"refused","code","message","detail"?}`, where
        `detail` is a traceback for people who ask for one.
    """
    try:
        if request.get("schema") == INSPECT_REQUEST:
            return inspect_workflow(request, sources=sources)
        if request.get("schema") == SETTINGS_CHECK:
            return check_settings(request, timeout_s=title_timeout_s, sources=sources)
        return _resolve(request, title_timeout_s, sources)
    except _Refused as refused:
        return _refusal(refused.code, refused.message, refused.__cause__)
    except AuthoringError as refused:
        worded = isinstance(refused, DefinitionError | NotJsonError)
        text = str(refused) if worded else refused.message
        return _refusal(refused.code, text, refused.detail)
    except BaseException as error:  # noqa: BLE001 - foreign code; the answer must say so
        return _refusal(ErrorCode.SOURCE_FAILED, describe(error, None), error)


def _resolve(request: JsonObject, title_timeout_s: float, sources: Sources) -> JsonObject:
    if request.get("schema") != RESOLVE_REQUEST:
        raise _Refused(ErrorCode.PAYLOAD_INVALID, "the resolve request has an unknown schema")
    whole = load_whole(request, sources)
    path, definition = whole.path, whole.definition
    _check_can_run(definition, request.get("originSessionId"))
    normalised = definition.accept_input(request["input"])
    answer: JsonObject = {
        "outcome": "resolved",
        **whole.described(),
        "input": normalised,
    }
    if definition.settings is not None:
        answer["settings"] = _settings(definition, normalised, path.parent, title_timeout_s)
    title = _title(definition, normalised, path.parent, title_timeout_s)
    if title is not None:
        answer["title"] = title
    return answer


def _check_can_run(definition: Definition, session_id: object) -> None:
    """Refuse a workflow with nodes that nobody could carry out.

    Args:
        session_id: the conversation that the run is to belong to; None for none.

    Raises:
        _Refused: names all of them.
    """
    named = _named(definition, {NodeType.AGENT, NodeType.CHECKPOINT, NodeType.HUMAN})
    if named:
        text = (
            f'workflow "{definition.name}": nodes that ask a model or a person cannot run yet: '
            f"{named}. The workflow is sound; it can be checked and included, but not started."
        )
        raise _Refused(ErrorCode.NODE_CANNOT_RUN, text)
    named = _named(definition, {NodeType.NOTIFY})
    if named and session_id is None:
        text = (
            f'workflow "{definition.name}": {named} writes to the conversation that a run belongs '
            "to, and this run would belong to none. Start it from a session."
        )
        raise _Refused(ErrorCode.NOTIFY_NEEDS_SESSION, text)


def _named(definition: Definition, types: AbstractSet[NodeType]) -> str:
    """Return the nodes of these types, which talk, for people; empty when there are none."""
    found = [node for node in definition.nodes.values() if node.node_type in types]
    return ", ".join(
        f'node "{node.node_id}" ({node.conversation.decorator})'
        for node in found
        if node.conversation is not None
    )


def _title(
    definition: Definition, normalised: JsonValue, directory: Path, timeout_s: float
) -> str | None:
    """Return the run's title; None when the workflow gives none.

    Raises:
        _Refused: the callback failed, took too long, or gave something that is no title.
    """
    callback = definition.title
    if callback is None or isinstance(callback, str):
        return _checked(callback, f'workflow "{definition.name}": the title')

    def ask() -> object:
        value = callback(definition.input_codec.load(normalised), definition.name)
        return _finish(value) if iscoroutine(value) else value

    where = f'workflow "{definition.name}": the title callback'
    given, failed = within(timeout_s, ask)
    if failed is not None:
        text = f"{where} failed: {describe(failed, directory)}"
        raise _Refused(ErrorCode.TITLE_FAILED, bounded_text(text)) from failed
    if not given:
        text = f"{where} took longer than {timeout_s:g} s. A title is only a label: make it cheap."
        raise _Refused(ErrorCode.TITLE_TIMEOUT, text)
    return _checked(given[0], where)


def _settings(
    definition: Definition, normalised: JsonValue, directory: Path, timeout_s: float
) -> JsonValue:
    """Return the settings that the run begins with.

    Raises:
        _Refused: the callback failed or took too long.
        SettingsRejected: they do not fit their model, or are too large.
    """
    given, failed = within(timeout_s, lambda: definition.begin_settings(normalised))
    if isinstance(failed, AuthoringError):
        raise failed
    where = f'workflow "{definition.name}": its initial settings'
    if failed is not None:
        text = f"{where} could not be made: {describe(failed, directory)}"
        raise _Refused(ErrorCode.SETTINGS_REJECTED, bounded_text(text)) from failed
    if not given:
        text = f"{where} took longer than {timeout_s:g} s to make; use the input alone."
        raise _Refused(ErrorCode.SETTINGS_REJECTED, text)
    return given[0]


def _checked(title: object, where: str) -> str | None:
    """Return the title if it can be a label.

    Raises:
        _Refused: it is too long, or no line of text.
    """
    if title is None:
        return None
    if not isinstance(title, str):
        text = f"{where} gives text or None, not {type(title).__name__}."
        raise _Refused(ErrorCode.TITLE_FAILED, text)
    if len(title) > TITLE_CHARS_MAX:
        text = f"{where} returned {len(title)} characters; at most {TITLE_CHARS_MAX} are allowed."
        raise _Refused(ErrorCode.TITLE_FAILED, text)
    if not is_label(title):
        text = f"{where} has a line break or another control character."
        raise _Refused(ErrorCode.TITLE_FAILED, text)
    return title


def _finish(coroutine: Coroutine[Any, Any, object]) -> object:
    import trio  # noqa: PLC0415 - only an async title needs it

    async def main() -> object:
        return await coroutine

    return trio.run(main)


def _refusal(code: str, message: str, detail: BaseException | str | None) -> JsonObject:
    answer: JsonObject = {
        "outcome": "refused",
        "code": str(code),
        "message": bounded_text(message),
    }
    if isinstance(detail, BaseException):
        detail = traceback_text(detail, detail.__traceback__)
    if detail is not None:
        answer["detail"] = bounded_text(detail)
    return answer


def _receive(connection: socket.socket) -> JsonObject:
    decoder = FrameDecoder()
    while True:
        data = connection.recv(_READ_BYTES)
        if not data:
            raise FrameError("the stream ended before the request")
        lines = decoder.feed(data)
        if lines:
            return parse_canonical(lines[0])


def _end_with(connection: socket.socket) -> None:
    """End the process when the server closes its end: nobody waits for the answer then."""

    def watch() -> None:
        # A server that has left something unread resets the connection instead of ending it.
        with contextlib.suppress(OSError):
            while connection.recv(_READ_BYTES):
                pass
        os._exit(EXIT_CHANNEL_LOST)

    threading.Thread(target=watch, name="resolver-channel", daemon=True).start()


def _end_late(connection: socket.socket, speaking: threading.Lock, late: JsonObject) -> None:
    """Answer instead of code that does not come back, unless it has just done so."""
    if speaking.acquire(blocking=False):
        with contextlib.suppress(OSError):
            connection.sendall(encode_frame(late))
        os._exit(EXIT_DONE)


def main(arguments: Sequence[str]) -> NoReturn:
    """Answer one request and end the process, whatever threads foreign code has left."""
    connection = take_connection("pi_workflows.runner.resolver", arguments)
    try:
        request = _receive(connection)
        _end_with(connection)
        connection.sendall(encode_frame({"outcome": RESOLVE_LOADING}))
        speaking = threading.Lock()
        bound_ms = request.get("boundMs")
        if isinstance(bound_ms, int):
            late_loading.watch(bound_ms / 1000, lambda late: _end_late(connection, speaking, late))
        answer = resolve(request)
        try:
            frame = encode_frame(answer)
        except FrameTooLarge:
            text = (
                "definition and input together are too large for one message (1 MiB); put what is"
                " large into a file and give its path."
            )
            frame = encode_frame(_refusal(ErrorCode.INPUT_REJECTED, text, None))
        speaking.acquire()  # For good: the process ends.
        connection.sendall(frame)
    except (OSError, FrameError) as error:
        sys.stderr.write(f"resolver: the channel is lost: {error}\n")
        os._exit(EXIT_CHANNEL_LOST)
    os._exit(EXIT_DONE)


if __name__ == "__main__":
    main(sys.argv[1:])
