"""After the end: the workflow says how its result is to be presented, or nothing happens."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows import Ctx, Definition, Workflow
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from pi_workflows.runner.messages import CallResult, ExitReason, Purpose, Reply
from pi_workflows.runner.presentation import PRESENTATION_MS

if TYPE_CHECKING:
    from pi_workflows.runner.messages import Send
    from tests.runner.conftest import Player, ScriptedServer


def doubling(
    prompt: Any,  # noqa: ANN401 - also what no type checker lets pass
    *,
    fails: bool = False,
    max_steps: int = 100,
) -> Definition:
    wf = Workflow("double", input=int, presentation_prompt=prompt, max_steps=max_steps)

    @wf.compute()
    def double(ctx: Ctx[int]) -> list[int]:
        if fails:
            raise LookupError("nothing")
        return [2 * ctx.input]

    @wf.compute()
    def then(ctx: Ctx[int]) -> list[int]:
        return ctx.output(double)

    wf.edge(double, then)
    return wf.build(start=double)


@pytest.fixture
def after_the_end(
    server: "ScriptedServer", player: "type[Player]"
) -> Callable[[Definition], list[JsonObject]]:
    def play(definition: Definition) -> list[JsonObject]:
        """Play the run to its end; return what was said after it."""
        server.input = 21
        ending = player(definition, server).play()
        assert ending is not None
        assert ending.reason is ExitReason.FINISHED
        assert server.finished is not None
        last = max(
            index
            for index, message in enumerate(server.messages)
            if message.operation == "run.advance"
        )
        after = server.messages[last + 1 :]
        assert all(message.expected_revision is None for message in after)
        return [{"operation": message.operation, **message.payload} for message in after]

    return play


Play = Callable[[Definition], list[JsonObject]]
ASKING: JsonObject = {"operation": "runner.progress", "presenting": True}


def test_workflow_without_a_prompt_says_nothing(after_the_end: Play) -> None:
    assert after_the_end(doubling(None)) == []


def test_text_is_handed_over(after_the_end: Play) -> None:
    assert after_the_end(doubling("Say it.")) == [{"operation": "run.present", "text": "Say it."}]


def test_callback_gets_the_input_and_the_final_output(after_the_end: Play) -> None:
    said = after_the_end(doubling(lambda given, output: f"{given} -> {output}"))
    assert said == [ASKING, {"operation": "run.present", "text": "21 -> [42]"}]


def test_callback_may_be_async(after_the_end: Play) -> None:
    async def prompt(given: int, output: list[int]) -> str:
        return f"{given} {output}"

    assert after_the_end(doubling(prompt))[-1]["text"] == "21 [42]"


@pytest.mark.parametrize("nothing", [None, "", "  \n"])
def test_callback_may_say_nothing(after_the_end: Play, nothing: str | None) -> None:
    assert after_the_end(doubling(lambda _given, _output: nothing)) == [ASKING]


@pytest.mark.parametrize("how", ["fails", "max_steps"])
def test_run_that_did_not_complete_has_no_final_output(after_the_end: Play, how: str) -> None:
    def prompt(given: int, output: object) -> str:
        return f"{given} {output}"

    definition = doubling(prompt, fails=how == "fails", max_steps=1)
    assert after_the_end(definition)[-1]["text"] == "21 None"


def broken(_given: int, _output: object) -> str:
    raise LookupError("no words")


@pytest.mark.parametrize(
    ("prompt", "error"),
    [
        (broken, "LookupError: no words (test_presentation.py:"),
        (lambda _given, _output: 5, "TypeError: presentation_prompt gives text or None, not int"),
    ],
    ids=["raises", "number"],
)
def test_callback_that_fails_leaves_the_end_as_it_is(
    after_the_end: Play, prompt: object, error: str
) -> None:
    """Case: B6."""
    asked, failed = after_the_end(doubling(prompt))
    assert asked == ASKING
    assert str(failed["presentationError"]).startswith(error)


def test_callback_has_thirty_seconds(server: "ScriptedServer", player: "type[Player]") -> None:
    """Case: B6."""
    server.input = 21
    playing = player(doubling(lambda _given, _output: "late"), server)
    real = playing._carry_out
    calls = []

    def late(step: Any) -> Any:  # noqa: ANN401
        if getattr(step, "purpose", None) is Purpose.PRESENT:
            calls.append(step)
            return CallResult(outcome=StepOutcome.TIMED_OUT)
        return real(step)

    playing._carry_out = late  # type: ignore[method-assign]
    ending = playing.play()
    assert ending is not None
    assert ending.reason is ExitReason.FINISHED
    assert calls[0].timeout_ms == PRESENTATION_MS == 30_000
    assert server.messages[-1].payload == {"presentationError": "it took too long"}
    assert calls[0].abandon.operation == "runner.progress"


def test_refusal_of_the_server_changes_nothing(
    server: "ScriptedServer", after_the_end: Play
) -> None:
    def refuse(message: "Send") -> Reply | None:
        if message.operation != "run.present":
            return None
        return Reply(WorkerMessageOutcome.REJECTED, error="too large")

    server.refuse = refuse
    assert len(after_the_end(doubling("Say it."))) == 1
