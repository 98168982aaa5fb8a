"""What the resolver answers, as a function and as a process."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

import pi_workflows
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.frames import FrameDecoder, encode_frame, parse_canonical
from pi_workflows.runner.resolver import resolve

BOUND_S: Final = 120.0
ROOT: Final = Path(pi_workflows.__file__).resolve().parent.parent
HEAD: Final = """
import threading
from pydantic import BaseModel
from pi_workflows import Ctx, Workflow
class In(BaseModel):
    count: int
    label: str = "none"
"""
BODY: Final = """
@wf.compute()
def node(ctx: Ctx[In]) -> int:
    return ctx.input.count
workflow = wf.build(start=node)
"""
TELLING_NOTHING: Final = """
@wf.compute()
def node(): return 1
workflow = wf.build(start=node)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))  # Loading a file extends it.
    return tmp_path


def write(project: Path, *, title: str = "None", body: str = BODY) -> Path:
    file = project / "count.workflow.py"
    file.write_text(f'{HEAD}\nwf = Workflow("count", input=In, title={title})\n{body}')
    return file


def request(project: Path, workflow: str, value: JsonValue) -> JsonObject:
    return {
        "schema": "pi-workflows.resolve-request.v1",
        "projectPath": str(project),
        "workflow": workflow,
        "input": value,
        "home": str(project / "home"),
    }


def ask(project: Path, value: JsonValue, **options: Any) -> JsonObject:  # noqa: ANN401
    return resolve(request(project, "./count.workflow.py", value), **options)


def test_a_good_file_is_resolved_with_its_normalised_input_and_title(project: Path) -> None:
    file = write(project, title="lambda i: f'{i.label} x {i.count}'")
    answer = ask(project, {"count": "3"})
    assert answer["outcome"] == "resolved"
    assert answer["workflowName"] == "count"
    assert answer["input"] == {"count": 3, "label": "none"}
    assert answer["title"] == "none x 3"
    assert cast("JsonObject", answer["source"])["path"] == str(file)
    snapshot = DefinitionSnapshot.parse(cast("JsonObject", answer["definitionSnapshot"]))
    assert snapshot.start_at == "node"


def test_an_async_title_is_awaited(project: Path) -> None:
    body = "async def name(_i, _n): return 'later'\nwf = Workflow('count', title=name)" + (
        BODY.replace("Ctx[In]", "Ctx").replace("ctx.input.count", "1")
    )
    write(project, body=body)
    assert ask(project, None).get("title") == "later"


def test_a_title_that_hangs_is_refused_at_its_bound(project: Path) -> None:
    write(project, title="lambda i: threading.Event().wait()")
    answer = ask(project, {"count": 1}, title_timeout_s=0.02)
    assert (answer["outcome"], answer["code"]) == ("refused", "TITLE_TIMEOUT")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_title_is_waited_for_thirty_seconds_and_no_longer(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    asynchronous: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The clock of the wait is a fake one: it says how long was waited and does not wait.

    Case: B13.
    """
    waited: list[float | None] = []
    monkeypatch.setattr(threading.Thread, "join", lambda _self, bound=None: waited.append(bound))
    if asynchronous:
        text = "import trio\nasync def name(_i): await trio.sleep_forever()\n"
        write(project, body=f"{text}wf = Workflow('count', title=name)\n" + TELLING_NOTHING)
    else:
        write(project, title="lambda i: threading.Event().wait()")
    answer = ask(project, {"count": 1})
    assert (answer["outcome"], answer["code"]) == ("refused", "TITLE_TIMEOUT")
    assert answer["message"] == (
        'workflow "count": the title callback took longer than 30 s. '
        "A title is only a label: make it cheap."
    )
    assert waited == [30.0]


@pytest.mark.parametrize("title", ["lambda i: 1 / 0", "lambda i: 3"])
def test_a_title_that_fails_is_refused(title: str, project: Path) -> None:
    write(project, title=title)
    assert ask(project, {"count": 1})["code"] == "TITLE_FAILED"


TUNED: Final = """
from pi_workflows import Settings
class Tune(BaseModel):
    lane: str = "normal"
def hang(_input):
    threading.Event().wait()
wf = Workflow("count", input=In, settings=Settings(Tune, initial={initial}))
"""


def ask_tuned(project: Path, initial: str, **options: Any) -> JsonObject:  # noqa: ANN401
    write(project, body=TUNED.replace("{initial}", initial) + BODY)
    return ask(project, {"count": 1, "label": "careful"}, **options)


@pytest.mark.parametrize("initial", ["Tune(lane='careful')", "lambda i: Tune(lane=i.label)"])
def test_the_initial_settings_come_with_the_answer(initial: str, project: Path) -> None:
    answer = ask_tuned(project, initial)
    assert answer["settings"] == {"lane": "careful"}
    assert "settings" not in ask(write(project).parent, {"count": 1})


@pytest.mark.parametrize(
    "initial", ["lambda: {'lane': 5}", "lambda: 1 / 0", "hang", "lambda: 'x'"]
)
def test_settings_that_cannot_begin_are_refused_at_the_start(initial: str, project: Path) -> None:
    answer = ask_tuned(project, initial, title_timeout_s=0.2)
    assert (answer["outcome"], answer["code"]) == ("refused", "SETTINGS_REJECTED")


@pytest.mark.parametrize("title", ["'x' * 201", "lambda i: 'x' * 201"])
def test_a_title_of_more_than_200_characters_is_refused(title: str, project: Path) -> None:
    write(project, title=title)
    answer = ask(project, {"count": 1})
    assert answer["code"] == "TITLE_FAILED"
    assert "201 characters; at most 200" in str(answer["message"])
    write(project, title=title.replace("201", "200"))
    assert ask(project, {"count": 1})["outcome"] == "resolved"


@pytest.mark.parametrize("text", ["a\n", "a\tb", "\x1b[31m", "a\u2028b", "\ud800"])
def test_a_title_that_is_no_line_of_text_is_refused(text: str, project: Path) -> None:
    write(project, title=f"lambda i: {text!a}")
    assert ask(project, {"count": 1})["code"] == "TITLE_FAILED"


TALKING: Final = """
from enum import StrEnum
class Next(StrEnum):
    ON = "on"
@wf.agent()
def review(): return "Look at it"
@wf.assistant_message()
def answer(): return "Say it"
@wf.choose(Next)
def choose(): return "Which?"
@wf.checkpoint(summary="?")
def wait(): ...
wf.edge(review, answer)
wf.edge(answer, choose)
wf.route(choose, {Next.ON: wait})
workflow = wf.build(start=review)
"""
TELLING: Final = """
@wf.notify()
def tell(): return "Done"
workflow = wf.build(start=tell)
"""


def test_a_workflow_with_nodes_that_cannot_run_yet_is_refused_by_their_names(
    project: Path,
) -> None:
    write(project, title="lambda i: 1 / 0", body=TALKING)
    answer = ask(project, {"count": 1})
    assert (answer["outcome"], answer["code"]) == ("refused", "NODE_CANNOT_RUN")
    assert answer["message"] == (
        'workflow "count": nodes that ask a model or a person cannot run yet: '
        'node "review" (agent), node "answer" (assistant_message), node "choose" (choose), '
        'node "wait" (checkpoint). '
        "The workflow is sound; it can be checked and included, but not started."
    )


def test_a_notification_of_an_included_workflow_needs_a_conversation_too(project: Path) -> None:
    """Case: B38."""
    write(project, body=TELLING.replace("workflow =", 'wf.exit("done", tell)\nworkflow ='))
    (project / "outer.workflow.py").write_text(
        'from pi_workflows import Workflow\nwf = Workflow("outer")\n'
        "@wf.compute()\ndef first(): return 1\n"
        'inner = wf.include("inner", "./count.workflow.py", input=lambda: {"count": 1})\n'
        "wf.edge(first, inner)\nworkflow = wf.build(start=first)\n"
    )
    outer = request(project, "./outer.workflow.py", None)
    refused = resolve(outer)
    assert refused["code"] == "NOTIFY_NEEDS_SESSION", refused
    assert 'node "inner/tell" (notify) writes to the conversation' in str(refused["message"])
    assert resolve({**outer, "originSessionId": "session-1"})["outcome"] == "resolved"


def test_a_refused_input_names_its_fields(project: Path) -> None:
    write(project)
    answer = ask(project, {"count": "many"})
    assert answer["code"] == "INPUT_REJECTED"
    assert "count" in str(answer["message"])


def test_a_failing_import_is_told_with_its_line_and_its_traceback_apart(project: Path) -> None:
    file = write(project, body="\n1 / 0\n")
    answer = ask(project, None)
    assert answer["code"] == "SOURCE_FAILED"
    line = 1 + file.read_text().splitlines().index("1 / 0")
    assert f"count.workflow.py:{line}" in str(answer["message"])
    assert "Traceback" not in str(answer["message"])
    assert "ZeroDivisionError" in str(answer["detail"])


def test_an_unknown_name_is_refused(project: Path) -> None:
    answer = resolve(request(project, "nowhere", None))
    assert (answer["outcome"], answer["code"]) == ("refused", "SOURCE_UNKNOWN")


class Resolver:
    """A resolver process and this end of its socket."""

    def __init__(self, project: Path) -> None:
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(BOUND_S)
        with theirs:
            module = ["-P", "-m", "pi_workflows.runner.resolver"]
            self.process = subprocess.Popen(
                [sys.executable, *module, "--fd", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdout=subprocess.DEVNULL,
                cwd=project,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def answers(self) -> list[JsonObject]:
        """All it says until it has ended."""
        decoder = FrameDecoder()
        said: list[JsonObject] = []
        while data := self.connection.recv(65_536):
            said.extend(map(parse_canonical, decoder.feed(data)))
        return said

    def close(self) -> None:
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def resolver(project: Path) -> Iterator[Resolver]:
    started = Resolver(project)
    yield started
    started.close()


def test_the_process_says_that_it_loads_answers_and_ends(
    resolver: Resolver, project: Path
) -> None:
    write(
        project, body="print('{}')\nthreading.Thread(target=threading.Event().wait).start()" + BODY
    )
    resolver.connection.sendall(encode_frame(request(project, "count.workflow.py", {"count": 1})))
    assert [answer["outcome"] for answer in resolver.answers()] == ["loading", "resolved"]
    assert resolver.process.wait(BOUND_S) == 0


def test_a_file_that_ends_the_interpreter_does_so_after_loading_was_announced(
    resolver: Resolver, project: Path
) -> None:
    write(project, body="import os\nos._exit(3)\n")
    resolver.connection.sendall(encode_frame(request(project, "count.workflow.py", {"count": 1})))
    assert resolver.answers() == [{"outcome": "loading"}]
    assert resolver.process.wait(BOUND_S) == 3


def test_the_process_ends_with_its_stream_even_inside_an_import(
    resolver: Resolver, project: Path
) -> None:
    os.mkfifo(project / "up")
    body = f"open({str(project / 'up')!r}, 'w').write('up')\nthreading.Event().wait()\n"
    write(project, body=body.replace(".write('up')", ".close()"))
    resolver.connection.sendall(encode_frame(request(project, "count.workflow.py", {"count": 1})))
    opened = threading.Thread(target=(project / "up").read_text, daemon=True)
    opened.start()
    opened.join(BOUND_S)
    assert not opened.is_alive()
    resolver.connection.close()
    assert resolver.process.wait(BOUND_S) == 4
