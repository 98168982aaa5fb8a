"""Updates from the output of a command, with real processes."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from pi_workflows.authoring import (
    Command,
    Definition,
    Update,
    UpdateLines,
    UpdateRefused,
    Workflow,
    idempotent,
)
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.channel import Stopped, TurnOver
from pi_workflows.runner.messages import Call, CallResult, Purpose, Reply, Send
from pi_workflows.runner.nodes.executor import Executor
from pi_workflows.runner.nodes.lines import LINE_BYTES_MAX, LineReader, LineUnreadable
from pi_workflows.runner.shell_groups import ShellGroups

if TYPE_CHECKING:
    from pi_workflows.authoring.updates import LineParser
    from pi_workflows.protocol.canonical import JsonObject

ACCEPTED: Final = Reply(WorkerMessageOutcome.ACCEPTED, 7)


def said(line: str, stream: str = "stdout") -> Update:
    return Update("line", stream, {"text": line})


def from_both(line: str, stream: str) -> Update:
    return said(line, stream)


def python(code: str) -> Command:
    return Command(sys.executable, ["-c", code])


def reading(command: Command, updates: "LineParser | UpdateLines") -> Definition:
    wf = Workflow("shell")

    @wf.shell(effect=idempotent("x"), updates=updates)
    def node() -> Command:
        return command

    return wf.build(start=node)


def run(
    definition: Definition,
    speak: Callable[[Send], Reply],
    cancellation: Cancellation | None = None,
) -> CallResult:
    node = definition.nodes[definition.start_at]
    call = Call(
        purpose=Purpose.NODE,
        node=node,
        run_id="run-1",
        attempt_id="attempt-1",
        visit=1,
        attempt=1,
        input=None,
        outputs={},
        results={},
        effect=None,
        timeout_ms=None,
        abandon=Send("run.advance", {}, None),
    )
    executor = Executor(
        definition, ShellGroups(), source_directory=None, speak=speak, term_grace_ms=20_000
    )
    return executor.run(call, cancellation or Cancellation())


class Server:
    """Remembers what is published; `refuse` is the answer to the update of this number."""

    def __init__(self, refuse: dict[int, Reply | Exception] | None = None) -> None:
        self.sent: list[Send] = []
        self._refuse = refuse or {}

    def __call__(self, message: Send) -> Reply:
        self.sent.append(message)
        answer = self._refuse.get(len(self.sent), ACCEPTED)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def texts(self) -> list[tuple[str, str]]:
        payloads = [cast("dict[str, Any]", message.payload) for message in self.sent]
        return [(payload["key"], payload["data"]["text"]) for payload in payloads]


def test_whole_lines_are_published_in_order_the_last_one_without_its_end_too() -> None:
    server = Server()
    result = run(reading(python("print('één\\r\\n\\nzwei\\ndrei', end='')"), said), server)
    assert result.outcome is StepOutcome.OK
    assert server.texts == [("stdout", text) for text in ("één", "", "zwei", "drei")]
    first = server.sent[0]
    assert (first.operation, first.expected_revision) == ("run.publishUpdate", None)
    assert first.payload["attemptId"] == "attempt-1"
    assert isinstance(result.output, dict)
    assert result.output["stdout"] == "één\r\n\nzwei\ndrei"


def test_only_the_wanted_streams_are_read_and_each_by_itself() -> None:
    both = "import sys; print('o'); print('e', file=sys.stderr)"
    server = Server()
    run(reading(python(both), UpdateLines(from_both, streams=["stderr"])), server)
    assert server.texts == [("stderr", "e")]
    server = Server()
    run(reading(python(both), UpdateLines(from_both, streams=["stdout", "stderr"])), server)
    assert sorted(server.texts) == [("stderr", "e"), ("stdout", "o")]


def test_lines_without_an_update_cost_nothing() -> None:
    server = Server()
    result = run(
        reading(python("print('\\n'.join(map(str, range(10_000))))"), lambda _line: None), server
    )
    assert result.outcome is StepOutcome.OK
    assert server.sent == []


ENDLESS: Final = "; import threading; threading.Event().wait()"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (f"print('x' * {LINE_BYTES_MAX + 1}, flush=True)", "longer than 65536 bytes"),
        (
            f"print('x' * {LINE_BYTES_MAX + 1}, end='', flush=True)",
            "longer than 65536 bytes",
        ),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()", "no UTF-8"),
    ],
    ids=["long", "long and endless", "bytes"],
)
def test_unreadable_line_ends_the_command_and_fails_the_node(code: str, says: str) -> None:
    """At once: the command would never end by itself.

    Case: B30.
    """
    server = Server()
    result = run(reading(python(code + ENDLESS), said), server)
    assert result.outcome is StepOutcome.FAILED
    assert says in str(result.error)
    assert server.sent == []
    receipt = cast("JsonObject", result.receipt)
    assert receipt["signal"] == "SIGTERM"


def test_longest_line_is_read() -> None:
    server = Server()
    text = f"print('x' * {LINE_BYTES_MAX})"
    result = run(reading(python(text), lambda line: said(str(len(line)))), server)
    assert result.outcome is StepOutcome.OK
    assert server.texts == [("stdout", "65536")]


def test_parser_that_raises_ends_the_command_and_is_named() -> None:
    def broken(line: str) -> Update:
        raise LookupError(f"no {line}")

    result = run(reading(python("print('x', flush=True)" + ENDLESS), broken), Server())
    assert result.outcome is StepOutcome.FAILED
    assert str(result.error).startswith("LookupError: no x (test_lines.py:")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            Reply(WorkerMessageOutcome.REJECTED, error="UPDATE_RATE: say less often"),
            "UpdateRefused [UPDATE_RATE] say less often",
        ),
        (
            Reply(WorkerMessageOutcome.REJECTED, error="unknown"),
            "UpdateRefused [UPDATE_REFUSED] unknown",
        ),
        (TurnOver(), "its node has ended"),
        (Stopped(), "the run is being stopped"),
    ],
    ids=str,
)
def test_refused_update_ends_the_command_and_no_later_line_is_read(
    answer: Reply | Exception, says: str
) -> None:
    server = Server({2: answer})
    lines = "for n in range(9): print(n, flush=True)"
    result = run(reading(python(f"exec({lines!r}){ENDLESS}"), said), server)
    assert result.outcome is StepOutcome.FAILED
    assert says in str(result.error)
    assert [text for _, text in server.texts] == ["0", "1"]


def test_no_line_of_much_output_is_lost() -> None:
    seen: list[int] = []

    def note(line: str) -> None:
        seen.append(int(line))

    many = "print('\\n'.join(f'{n:0100}' for n in range(5_000)))"
    result = run(reading(python(many), note), Server())
    assert result.outcome is StepOutcome.OK
    assert seen == list(range(5_000))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_lines_are_the_same_however_the_bytes_arrive(size: int) -> None:
    data = "één\nzwei\r\n\nend".encode()
    found: list[str] = []
    reader = LineReader(UpdateLines(said), lambda update: found.append(str(update.data["text"])))
    for at in range(0, len(data), size):
        reader.feed("stdout", data[at : at + size])
    reader.feed("stderr", b"not read\n", final=True)
    assert found == ["één", "zwei", ""]
    reader.feed("stdout", b"", final=True)
    assert found == ["één", "zwei", "", "end"]


def test_long_line_is_refused_before_its_end_has_come() -> None:
    reader = LineReader(UpdateLines(said), lambda _update: None)
    reader.feed("stdout", b"x" * LINE_BYTES_MAX)
    with pytest.raises(LineUnreadable):
        reader.feed("stdout", b"x")


def test_uncaught_refusal_fails_an_action_and_a_caught_one_does_not() -> None:
    wf = Workflow("flow")
    caught: list[str] = []

    @wf.action(effect=idempotent("x"))
    def first(ctx: Any) -> int:  # noqa: ANN401
        try:
            ctx.progress()
        except UpdateRefused as refused:
            caught.append(refused.code)
        ctx.progress()
        return 1

    definition = wf.build(start=first)
    refusal = Reply(WorkerMessageOutcome.REJECTED, error="UPDATE_RATE: say less often")
    assert run(definition, Server({1: refusal})).outcome is StepOutcome.OK
    failed = run(definition, Server({1: refusal, 2: refusal}))
    assert failed.outcome is StepOutcome.FAILED
    assert str(failed.error).startswith("UpdateRefused [UPDATE_RATE] say less often (")
    assert caught == ["UPDATE_RATE", "UPDATE_RATE"]
