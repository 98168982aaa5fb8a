"""`observe(...)`: what is sound, how others are refused, and what the snapshot keeps of it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from pi_workflows.authoring import (
    Ctx,
    Definition,
    DefinitionError,
    EffectSpec,
    Observation,
    Workflow,
    absent,
    applied,
    manual,
    observe,
)


def look(ctx: Ctx[Any]) -> Observation[str]:
    return applied(ctx.run_id)


def built(effect: Any) -> Definition:  # noqa: ANN401 - wrong ones too
    wf = Workflow("flow")

    @wf.action(effect=effect)
    def send() -> str:
        return ""

    return wf.build(start=send)


def test_an_observed_effect_keeps_its_function_and_bound() -> None:
    node = built(observe("mail.send", look, timeout=timedelta(minutes=2))).nodes["send"]
    assert node.look is not None
    assert (node.look.timeout_ms, node.look.is_async) == (120_000, False)
    assert node.effect is not None
    assert node.effect.recovery == "observe"


def test_the_snapshot_names_recovery_and_bound_and_the_digest_follows() -> None:
    definition = built(observe("mail.send", look))
    nodes = definition.snapshot()["nodes"]
    assert isinstance(nodes, list)
    (node,) = nodes
    assert isinstance(node, dict)
    assert node["effect"] == {"type": "mail.send", "recovery": "observe", "lookTimeoutMs": 30_000}
    others = (observe("mail.send", look, timeout=29), manual("mail.send"))
    digests = {definition.digest(), *(built(other).digest() for other in others)}
    assert len(digests) == 3


def yielding(_ctx: Ctx[Any]) -> Iterator[Observation[str]]:
    yield absent()


def greedy(_ctx: Ctx[Any], _more: int) -> Observation[str]:
    return absent()


@pytest.mark.parametrize(
    ("effect", "says"),
    [
        (EffectSpec("x", "observe"), "observe takes a function"),
        (observe("x", "look"), "observe takes a function"),  # type: ignore[call-overload]
        (observe("x", greedy), "observe takes a function"),  # type: ignore[arg-type]
        (observe("x", yielding), "the observing function yields"),  # type: ignore[arg-type]
        (observe(" ", look), "the effect's type is blank"),
        (observe("x", look, timeout=0), "observe(timeout=...): a timeout is a finite number"),
        (observe("x", look, timeout=float("nan")), "observe(timeout=...): a timeout is"),
        (observe("x", look, timeout="1"), "not a str"),  # type: ignore[call-overload]
        (observe("x", look, timeout=None), "a look has to end"),  # type: ignore[call-overload]
        (EffectSpec("x", "manual", look), "only observe(...) takes a function that looks"),
    ],
)
def test_an_unsound_look_is_refused_when_built(effect: object, says: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        built(effect)
    (problem,) = refused.value.problems
    assert problem.code == "DEFINITION_INVALID"
    assert says in problem.message
