"""The operator's list of effects: what is open anywhere, or all of one run; oldest first."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from store import effect_lists
from store.effect_lists import EffectCursorError
from store.errors import RunUnknownError

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore, WrittenRun


def to_send(run: "WrittenRun") -> "WrittenRun":
    run.begin()
    run.work(run.started("fetch"))
    run.act("send")
    return run


def listed(store: "WriteStore", **wanted: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    arguments = {"run_id": None, "settled_too": False, "limit": 10} | wanted
    found = store.do(effect_lists.page, **arguments)
    return cast("list[dict[str, Any]]", found["items"])


def test_open_effects_are_listed_with_what_an_operator_needs(store: "WriteStore") -> None:
    run = to_send(store.create("run-1"))
    store.now += 1_000
    run.park()
    (effect,) = listed(store)
    assert effect["effectId"].startswith("effect-")
    del effect["effectId"]
    assert effect == {
        "runId": "run-1",
        "effectType": "mail.send",
        "nodeId": "send",
        "recovery": "manual",
        "status": "ambiguous",
        "runStatus": "waiting",
        "attempts": 1,
        "createdAt": "2023-11-14T22:13:20.000Z",
        "since": "2023-11-14T22:13:21.000Z",
    }


def test_settled_effects_are_listed_on_demand_and_local_ones_never(store: "WriteStore") -> None:
    run = store.create("run-1").walk()
    run.advance(run.completed())
    to_send(store.create("run-2"))
    assert [item["runId"] for item in listed(store)] == ["run-2"]
    assert listed(store, run_id="run-1") == []
    found = listed(store, run_id="run-1", settled_too=True)
    assert [(item["effectType"], item["status"]) for item in found] == [
        ("mail.send", "applied"),
        ("note.write", "applied"),
    ]


def test_pages_follow_each_other_without_a_gap(store: "WriteStore") -> None:
    for number in range(5):
        store.now += number % 2
        to_send(store.create(f"run-{number}"))
    whole = listed(store)
    paged: list[object] = []
    cursor: object = None
    while True:
        page = store.do(
            effect_lists.page,
            run_id=None,
            settled_too=False,
            limit=2,
            cursor=cast("str | None", cursor),
        )
        paged += cast("list[object]", page["items"])
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert len(whole) == 5
    assert paged == whole


def test_unknown_run_and_foreign_cursor_are_refused(store: "WriteStore") -> None:
    with pytest.raises(RunUnknownError):
        listed(store, run_id="run-of-nobody")
    for cursor in ("", "!", "WzFd"):
        with pytest.raises(EffectCursorError):
            listed(store, cursor=cursor)
