"""Nodes: which functions, effects and shell options are sound, and how others are refused."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from pi_workflows import (
    Command,
    Ctx,
    DefinitionError,
    EffectSpec,
    Node,
    ShellResult,
    Workflow,
    idempotent,
    manual,
)


def one() -> int:
    """Stand in for any sound function of a node."""
    return 1


def refusal(build: Callable[[], object]) -> DefinitionError:
    """Return the error that `build` raises."""
    with pytest.raises(DefinitionError) as caught:
        build()
    return caught.value


@pytest.mark.parametrize(
    "name", ["1a", "a.b", "__piw_x", "__x__", "", "a/b", "<lambda>", "x" * 129]
)
def test_a_malformed_node_name_is_refused(name: str) -> None:
    """Case: B2."""
    wf = Workflow("flow")

    def fn() -> int:
        return 1

    fn.__name__ = name
    node = wf.compute()(fn)
    error = refusal(lambda: wf.build(start=node))
    assert [problem.code for problem in error.problems] == ["DEFINITION_INVALID"]
    assert f'node "{name}"' in error.message


@pytest.mark.parametrize("name", ["_", "_a", "__x", "x__", "A-1", "piw_x", "x" * 128])
def test_a_well_formed_node_name_is_accepted(name: str) -> None:
    wf = Workflow("flow")

    def fn() -> int:
        return 1

    fn.__name__ = name
    assert wf.build(start=wf.compute()(fn)).start_at == name


def test_an_action_without_effect_is_refused_with_the_fix() -> None:
    """Case: B4."""
    wf = Workflow("flow")

    @wf.action()
    def say() -> None: ...

    error = refusal(lambda: wf.build(start=say))
    expected = (
        'node "say": declare effect=idempotent("..."), observe("...", look) or manual("...").'
    )
    assert expected in str(error)
    assert str(error).startswith("DefinitionError [DEFINITION_INVALID] ")


def test_an_action_on_something_that_is_no_function_is_refused_at_once() -> None:
    """Case: B4."""
    wf = Workflow("flow", max_steps=0)
    error = refusal(lambda: wf.action(effect=manual("x"))(None))  # type: ignore[call-overload]
    assert "@wf.action(...) decorates a function, not a NoneType." in error.message
    assert "max_steps" in error.message


def test_a_shell_node_without_effect_is_refused() -> None:
    wf = Workflow("flow")

    @wf.shell()
    def say() -> Command:
        return Command("true")

    assert "declare effect=" in refusal(lambda: wf.build(start=say)).message


@pytest.mark.parametrize("name", ["", "  ", "x" * 257, "\U0001f600" * 129, None])
def test_a_blank_or_long_effect_type_is_refused(
    name: Any,  # noqa: ANN401 - wrong on purpose
) -> None:
    wf = Workflow("flow")
    node = wf.action(effect=EffectSpec(name, "manual"))(one)
    assert "effect's type" in refusal(lambda: wf.build(start=node)).message


def test_an_effect_type_of_256_characters_is_accepted() -> None:
    wf = Workflow("flow")

    @wf.action(effect=idempotent("x" * 256), request=lambda ctx: ctx.run_id)
    def say() -> None: ...

    node = wf.build(start=say).nodes["say"]
    assert node.effect == EffectSpec("x" * 256, "idempotent")
    assert node.request is not None


@pytest.mark.parametrize(
    "options",
    [
        {"parse": 3},
        {"parse": lambda: 1},
        {"allow_nonzero_exit": 1},
        {"max_output_chars": 0},
        {"max_output_chars": 1.5},
        {"status_detail": 3},
        {"timeout": "x"},
    ],
)
def test_a_shell_option_of_the_wrong_kind_is_refused(options: dict[str, Any]) -> None:
    wf = Workflow("flow")

    @wf.shell(effect=manual("x"), **options)
    def say() -> Command:
        return Command("true")

    error = refusal(lambda: wf.build(start=say))
    assert len(error.problems) == 1
    assert next(iter(options)) in error.message


def test_an_async_parser_is_refused() -> None:
    wf = Workflow("flow")

    async def parse(result: ShellResult) -> str:
        return result.stdout

    @wf.shell(effect=manual("x"), parse=parse)
    def say() -> Command:
        return Command("true")

    assert "parse is an ordinary function" in refusal(lambda: wf.build(start=say)).message


def test_functions_may_be_sync_or_async_with_or_without_context() -> None:
    wf = Workflow("flow")

    @wf.compute()
    def plain(ctx: Ctx[Any]) -> int:
        return ctx.visit

    @wf.compute()
    async def later() -> int:
        return 2

    wf.edge(plain, later)
    nodes = wf.build(start=plain).nodes
    assert not nodes["plain"].is_async
    assert nodes["later"].is_async
    assert nodes["plain"].fn is plain.fn
    coroutine = nodes["later"].fn(None)  # type: ignore[arg-type]
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    assert stopped.value.value == 2


def test_a_handle_keeps_the_bare_function() -> None:
    wf = Workflow("flow")

    def only() -> int:
        return 41

    node = wf.compute()(only)
    assert node.fn is only
    assert node.node_id == "only"


def test_a_function_of_two_arguments_or_a_generator_is_refused() -> None:
    wf = Workflow("flow")

    def two(_a: int, _b: int) -> None: ...

    def generator(_ctx: Ctx[Any]) -> Any:  # noqa: ANN401 - a generator hides behind it
        yield 1

    first: Node[Any] = wf.compute()(two)  # type: ignore[arg-type]
    wf.edge(first, wf.compute()(generator))
    error = refusal(lambda: wf.build(start=first))
    assert "takes one argument" in error.problems[0].message
    assert "yields" in error.problems[1].message


def test_two_nodes_of_one_name_are_refused() -> None:
    wf = Workflow("flow")
    first = wf.compute()(one)
    wf.compute()(functools.wraps(one)(lambda: 1))
    error = refusal(lambda: wf.build(start=first))
    assert 'node "one": the name is taken' in error.message


def test_a_return_type_without_json_form_is_refused() -> None:
    wf = Workflow("flow")

    class Opaque:
        pass

    @wf.compute()
    def only() -> Opaque:
        return Opaque()

    @wf.compute()
    def other() -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
        return None

    wf.edge(only, other)
    error = refusal(lambda: wf.build(start=only))
    assert 'node "only": its return type has no JSON form' in error.message
    assert "node \"other\": its return annotation cannot be read: name 'Nowhere'" in error.message


def test_text_annotations_of_local_types_are_resolved_where_build_is_called() -> None:
    wf = Workflow("flow")

    @wf.compute()
    def only() -> "Local":
        return [1]

    Local = list[int]  # noqa: N806 - a type alias
    assert wf.build(start=only).nodes["only"].codec.label == "list[int]"


def test_the_output_of_a_shell_node_is_what_its_parser_declares() -> None:
    wf = Workflow("flow")

    def count(result: ShellResult) -> int:
        return len(result.stdout)

    @wf.shell(effect=manual("x"), parse=count)
    def parsed() -> Command:
        return Command("true")

    @wf.shell(effect=manual("x"), allow_nonzero_exit=True, max_output_chars=5)
    def raw() -> Command:
        return Command("true")

    wf.edge(parsed, raw)
    nodes = wf.build(start=parsed).nodes
    assert nodes["parsed"].codec.declared is int
    assert nodes["raw"].codec.declared is ShellResult
    assert nodes["raw"].shell is not None
    assert nodes["raw"].shell.allow_nonzero_exit
    assert nodes["raw"].shell.max_output_chars == 5


def test_a_command_refuses_arguments_that_are_no_list_of_texts() -> None:
    for args in ("abc", [1]):
        with pytest.raises(TypeError, match="list of texts"):
            Command("printf", args=args)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is text"):
        Command(["printf"])  # type: ignore[arg-type]


def test_a_timeout_of_a_command_is_a_duration_above_zero() -> None:
    with pytest.raises(TypeError, match="a timeout is seconds"):
        Command("sleep", timeout="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="above 0"):
        Command("sleep", timeout=0)
    assert Command("sleep", timeout=1.5).timeout_ms == 1_500
    assert Command("sleep").timeout_ms is None


@pytest.mark.parametrize("detail", [3, "x" * 1_001, "a\nb", "\x1b[31m", "\ud800", "a\u2028b"])
def test_a_status_detail_that_is_no_line_of_text_is_refused(
    detail: Any,  # noqa: ANN401 - wrong on purpose
) -> None:
    wf = Workflow("flow")
    node = wf.compute(status_detail=detail)(one)
    assert "status_detail is" in refusal(lambda: wf.build(start=node)).message


@pytest.mark.parametrize("detail", [None, "", "x" * 1_000, "counting \U0001f600"])
def test_a_status_detail_is_a_line_of_text_or_nothing(detail: str | None) -> None:
    wf = Workflow("flow")
    node = wf.compute(status_detail=detail)(one)
    assert wf.build(start=node).nodes["one"].status_detail == detail


def test_callbacks_that_yield_are_refused() -> None:
    def seconds(_ctx: Ctx[Any]) -> Any:  # noqa: ANN401 - wrong on purpose
        yield 1

    wf = Workflow("flow")
    node = wf.compute(timeout=seconds)(one)
    assert "it returns." in refusal(lambda: wf.build(start=node)).message
    wf = Workflow("flow")
    node = wf.action(effect=manual("x"), request=seconds)(one)
    assert "does not yield" in refusal(lambda: wf.build(start=node)).message
