"""What authors may publish, from where, and how a wrong update is refused before it is sent."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pi_workflows import (
    Command,
    Ctx,
    DefinitionError,
    Update,
    UpdateLines,
    UpdateRefused,
    Workflow,
    idempotent,
    progress,
)
from pi_workflows.authoring.updates import said_updates


def context(sent: list[Update] | None) -> Ctx[Any]:
    return Ctx(
        run_id="run-1",
        input=None,
        outputs={},
        results={},
        visit=1,
        codecs={},
        cancelled=lambda: False,
        publish=None if sent is None else sent.append,
    )


def test_an_action_publishes_updates_and_progress() -> None:
    sent: list[Update] = []
    ctx = context(sent)
    ctx.publish_update("build.log", "main", {"line": 3})
    ctx.progress(completed=1, total=4, unit="file", label="files", phase="copy")
    assert sent[0] == Update("build.log", "main", {"line": 3})
    assert sent[1] == progress(completed=1, total=4, unit="file", label="files", phase="copy")
    assert sent[1].data == {
        "schema": "pi-workflows.progress.v1",
        "status": "running",
        "completed": 1,
        "total": 4,
        "unit": "file",
        "label": "files",
        "phase": "copy",
    }
    assert (sent[1].type, sent[1].key) == ("progress", "overall")


def test_other_nodes_publish_nothing() -> None:
    with pytest.raises(UpdateRefused, match="only the function of an action") as refused:
        context(None).publish_update("x", "k", {})
    assert refused.value.code == "UPDATE_REFUSED"


@pytest.mark.parametrize(
    "publish",
    [
        lambda ctx: ctx.publish_update("Bad", "k", {}),
        lambda ctx: ctx.publish_update("x", "", {}),
        lambda ctx: ctx.publish_update("x", "k", [1]),
        lambda ctx: ctx.publish_update("x", "k", {"at": datetime.now(UTC)}),
        lambda ctx: ctx.progress(completed=3, total=2, unit="file"),
        lambda ctx: ctx.progress(completed=3),
        lambda ctx: ctx.progress(status="busy"),
        lambda ctx: ctx.progress(key="no key"),
        lambda ctx: ctx.publish_update("progress", "overall", {"percent": 5}),
    ],
    ids=["type", "key", "list", "time", "total", "unit", "status", "progress key", "field"],
)
def test_a_wrong_update_is_refused_before_it_is_sent(publish: Any) -> None:  # noqa: ANN401
    """Case: B65."""
    sent: list[Update] = []
    with pytest.raises(UpdateRefused) as refused:
        publish(context(sent))
    assert refused.value.code == "UPDATE_INVALID"
    assert sent == []


def test_data_of_an_update_is_its_own() -> None:
    data = {"n": 1}
    update = Update("x", "k", data)
    data["n"] = 2
    assert update.data == {"n": 1}


def shell_with(updates: Any) -> None:  # noqa: ANN401 - what no type checker lets pass
    wf = Workflow("flow")

    @wf.shell(effect=idempotent("x"), updates=updates)
    def node() -> Command:
        return Command("true")

    wf.build(start=node)


def parser(line: str) -> Update | None:
    return Update("x", "k", {"line": line})


async def parser_async(line: str) -> None:
    del line


def parser_yielding(line: str) -> Any:  # noqa: ANN401
    yield parser(line)


@pytest.mark.parametrize(
    "updates",
    [
        None,
        parser,
        lambda line, stream: Update("x", stream, {"line": line}),
        UpdateLines(parser),
        UpdateLines(parser, streams=["stderr"]),
        UpdateLines(parser, streams=("stderr", "stdout")),
    ],
    ids=["none", "function", "two arguments", "lines", "stderr", "both"],
)
def test_a_line_parser_is_accepted(updates: object) -> None:
    shell_with(updates)


@pytest.mark.parametrize(
    ("updates", "says"),
    [
        (5, "updates is a function of"),
        (lambda: None, "updates is a function of"),
        (lambda _a, _b, _c: None, "updates is a function of"),
        (UpdateLines(None), "updates is a function of"),  # type: ignore[arg-type]
        (parser_async, "neither async nor a generator"),
        (parser_yielding, "neither async nor a generator"),
        (UpdateLines(parser, streams=()), "one or both of"),
        (UpdateLines(parser, streams="stdout"), "one or both of"),
        (UpdateLines(parser, streams=("stdout", "stdout")), "one or both of"),
        (UpdateLines(parser, streams=("stdin",)), "one or both of"),
        (UpdateLines(parser, streams=None), "one or both of"),  # type: ignore[arg-type]
        (UpdateLines(parser, streams=[["stdout"]]), "one or both of"),  # type: ignore[list-item]
    ],
    ids=range(12),
)
def test_an_unusable_line_parser_is_refused(updates: object, says: str) -> None:
    with pytest.raises(DefinitionError, match=says) as refused:
        shell_with(updates)
    assert [problem.code for problem in refused.value.problems] == ["DEFINITION_INVALID"]


def test_a_parser_may_say_nothing_one_thing_or_several_and_nothing_else() -> None:
    one = Update("x", "k", {})
    for said, found in ((None, []), (one, [one]), ([one, one], [one, one]), ((), [])):
        assert said_updates(said) == found
    for wrong in ("text", 5, [one, None]):
        with pytest.raises(TypeError, match="returns updates or None"):
            said_updates(wrong)
