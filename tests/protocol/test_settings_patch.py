"""Patches of settings: their bounds, who may do what where, and that a refusal changes nothing."""

import copy
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes
from pi_workflows.protocol.settings_patch import (
    OPERATIONS_MAX,
    PATCH_BYTES_MAX,
    Author,
    PatchRefused,
    apply_patch,
    parse_patch,
)
from pi_workflows.protocol.settings_rules import (
    SETTINGS_BYTES_MAX,
    PathRule,
    Permission,
    PointerInvalid,
    SettingsRules,
    pointer_tokens,
)
from pi_workflows.protocol.states import ActorType

HUMAN: Final = ActorType.HUMAN
EVERYTHING: Final = "read add remove replace"
DOCUMENT: Final[JsonObject] = {
    "lane": "normal",
    "notes": ["first", "second"],
    "limits": {"cpu": 1, "memory": {"soft": 10}},
    "a/b": {"m~n": 0},
}


def rule(path: str, permissions: str, *actors: ActorType) -> PathRule:
    granted = frozenset(actors or (HUMAN,))
    return PathRule(path, {Permission(name): granted for name in permissions.split()})


def patched(
    patch: list[JsonValue],
    *rules: PathRule,
    document: JsonValue = DOCUMENT,
    actor: ActorType = HUMAN,
) -> JsonValue:
    """What a patch makes of a document; without rules everything is allowed."""
    author = Author(SettingsRules(rules or (rule("", EVERYTHING),)), actor)
    return apply_patch(document, parse_patch(patch), author)


def code_of(
    patch: list[JsonValue],
    *rules: PathRule,
    document: JsonValue = DOCUMENT,
    actor: ActorType = HUMAN,
) -> str:
    """The code that a patch is refused with; the document stays what it was."""
    before = copy.deepcopy(document)
    with pytest.raises(PatchRefused) as caught:
        patched(patch, *rules, document=document, actor=actor)
    assert document == before
    return str(caught.value.code)


def replace(path: str, value: JsonValue) -> JsonObject:
    return {"op": "replace", "path": path, "value": value}


def add(path: str, value: JsonValue) -> JsonObject:
    return {"op": "add", "path": path, "value": value}


def test_the_most_specific_path_decides_alone_and_without_a_rule_all_is_denied() -> None:
    """A rule for something inside takes away what the rule around it gives.

    Case: B68.
    """
    rules = (rule("/limits", EVERYTHING), rule("/limits/memory", "read"))
    assert patched([replace("/limits/cpu", 2)], *rules) != DOCUMENT
    assert code_of([replace("/limits/memory", {})], *rules) == "SETTINGS_DENIED"
    assert code_of([replace("/limits/memory/soft", 1)], *rules) == "SETTINGS_DENIED"
    assert code_of([replace("/lane", "careful")], *rules) == "SETTINGS_DENIED"
    assert code_of([replace("/limits/cpu", 2)], *rules, actor=ActorType.SESSION) == (
        "SETTINGS_DENIED"
    )


def test_a_path_is_compared_by_whole_segments() -> None:
    assert code_of([add("/limits2", 1)], rule("/limits", EVERYTHING)) == "SETTINGS_DENIED"


def test_an_addition_that_overwrites_needs_replace() -> None:
    """An insertion into a list moves what stands there and overwrites nothing.

    Case: B69.
    """
    only_add, only_replace = rule("", "add"), rule("", "replace")
    assert code_of([add("/lane", "careful")], only_add) == "SETTINGS_DENIED"
    assert code_of([add("", {})], only_add) == "SETTINGS_DENIED"
    assert patched([add("/lane", "careful")], only_replace) == {**DOCUMENT, "lane": "careful"}
    assert patched([add("", {"new": True})], only_replace) == {"new": True}
    assert code_of([add("/fresh", 1)], only_replace) == "SETTINGS_DENIED"
    assert patched([add("/fresh", 1)], only_add) == {**DOCUMENT, "fresh": 1}
    inserted = patched([add("/notes/0", "zero"), add("/notes/-", "last")], only_add)
    assert inserted == {**DOCUMENT, "notes": ["zero", "first", "second", "last"]}


def test_a_denied_addition_says_that_it_would_replace() -> None:
    with pytest.raises(PatchRefused) as replacing:
        patched([add("/lane", "careful")], rule("", "add"))
    with pytest.raises(PatchRefused) as adding:
        patched([add("/fresh", 1)], rule("", "replace"))
    assert str(replacing.value) == (
        "operation 1 (add /lane): human may not replace there, "
        "and what is added would replace what stands there"
    )
    assert str(adding.value) == "operation 1 (add /fresh): human may not add there"


def test_each_operation_is_authorised_against_the_document_as_it_then_stands() -> None:
    """What was added by the first operation exists for the second."""
    only_add = rule("", "add")
    assert code_of([add("/fresh", 1), add("/fresh", 2)], only_add) == "SETTINGS_DENIED"
    allowed = rule("", "add remove")
    gone: list[JsonValue] = [{"op": "remove", "path": "/lane"}, add("/lane", "careful")]
    assert patched(gone, allowed) == {**DOCUMENT, "lane": "careful"}


@pytest.mark.parametrize(
    ("operation", "needed"),
    [
        ({"op": "test", "path": "/lane", "value": "normal"}, {"/lane": "read"}),
        ({"op": "remove", "path": "/lane"}, {"/lane": "remove"}),
        (replace("/lane", "careful"), {"/lane": "replace"}),
        ({"op": "copy", "from": "/lane", "path": "/new"}, {"/lane": "read", "/new": "add"}),
        (
            {"op": "copy", "from": "/limits/cpu", "path": "/lane"},
            {"/limits/cpu": "read", "/lane": "replace"},
        ),
        ({"op": "move", "from": "/lane", "path": "/new"}, {"/lane": "read remove", "/new": "add"}),
        (
            {"op": "move", "from": "/limits/cpu", "path": "/notes/0"},
            {"/limits/cpu": "read remove", "/notes/0": "add"},
        ),
        (
            {"op": "move", "from": "/limits/cpu", "path": "/lane"},
            {"/limits/cpu": "read remove", "/lane": "replace"},
        ),
    ],
)
def test_an_operation_needs_exactly_its_permissions(
    operation: JsonObject, needed: dict[str, str]
) -> None:
    patched([operation], *(rule(path, permissions) for path, permissions in needed.items()))
    for left_out, permissions in needed.items():
        for permission in permissions.split():
            rest = {
                path: " ".join(
                    one for one in granted.split() if (path, one) != (left_out, permission)
                )
                for path, granted in needed.items()
            }
            others = [rule(path, granted) for path, granted in rest.items()]
            assert code_of([operation], *others) == "SETTINGS_DENIED"


def test_too_many_operations_too_large_a_patch_and_too_large_a_result_are_refused() -> None:
    """One more than 256 operations, than 64 KiB of patch, than 256 KiB of result.

    Case: B70.
    """
    many: list[JsonValue] = [replace("/lane", str(n)) for n in range(OPERATIONS_MAX)]
    assert patched(many) == {**DOCUMENT, "lane": "255"}
    assert code_of([*many, replace("/lane", "x")]) == "SETTINGS_PATCH_INVALID"

    room = PATCH_BYTES_MAX - len(canonical_bytes([replace("/lane", "")]))
    patched([replace("/lane", "x" * room)])
    assert code_of([replace("/lane", "x" * (room + 1))]) == "SETTINGS_PATCH_INVALID"

    body = SETTINGS_BYTES_MAX - len(canonical_bytes({"text": "", "more": ""}))
    full: JsonObject = {"text": "x" * body, "more": ""}
    assert patched([replace("/more", "")], document=full) == full
    assert code_of([replace("/more", "x")], document=full) == "SETTINGS_REJECTED"


def test_copies_that_double_the_document_are_stopped_early() -> None:
    doubling: list[JsonValue] = [
        {"op": "copy", "from": "", "path": f"/copy{n}"} for n in range(OPERATIONS_MAX)
    ]
    assert code_of(doubling) == "SETTINGS_REJECTED"


def test_a_patch_whose_third_operation_fails_changes_nothing() -> None:
    """Case: B71."""
    failing = [replace("/lane", "careful"), add("/fresh", 1), replace("/nowhere", 1)]
    assert code_of([*failing]) == "SETTINGS_PATCH_FAILED"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": ""},
        {"op": "move", "from": "", "path": "/lane"},
        {"op": "move", "from": "/limits", "path": "/limits/memory/all"},
        {"op": "remove", "path": "/notes/-"},
        {"op": "remove", "path": "/notes/2"},
        {"op": "remove", "path": "/notes/00"},
        {"op": "remove", "path": "/notes/+1"},
        {"op": "remove", "path": f"/notes/{'9' * 900}"},
        {"op": "remove", "path": "/lane/deep"},
        {"op": "copy", "from": "/nowhere", "path": "/lane"},
        {"op": "test", "path": "/lane", "value": "careful"},
        {"op": "test", "path": "/limits/cpu", "value": True},
        add("/notes/3", "x"),
        add("/notes/01", "x"),
        add("/lane/deep", 1),
        add("/nowhere/deep", 1),
        replace("/notes/-", 1),
    ],
)
def test_an_operation_that_cannot_be_carried_out_is_refused(operation: JsonObject) -> None:
    assert code_of([operation]) == "SETTINGS_PATCH_FAILED"


def test_a_move_to_itself_does_nothing_and_numbers_are_compared_as_json() -> None:
    still: JsonObject = {"op": "move", "from": "/limits", "path": "/limits"}
    equal: JsonObject = {"op": "test", "path": "/limits/cpu", "value": 1.0}
    assert patched([still, equal]) == DOCUMENT


def test_escaped_parts_name_what_they_stand_for() -> None:
    assert patched([replace("/a~1b/m~0n", 5)]) == {**DOCUMENT, "a/b": {"m~n": 5}}


@pytest.mark.parametrize(
    "patch",
    [
        {},
        [],
        ["x"],
        [{"op": "increment", "path": "/lane"}],
        [{"op": ["add"], "path": "/lane"}],
        [{"op": "add", "path": "/lane"}],
        [{"op": "remove", "path": "/lane", "value": 1}],
        [{"op": "add", "path": "/lane", "value": 1, "note": ""}],
        [{"op": "add", "path": "lane", "value": 1}],
        [{"op": "add", "path": "/la~2ne", "value": 1}],
        [{"op": "add", "path": 3, "value": 1}],
        [{"op": "add", "path": "/" + "x" * 1_024, "value": 1}],
    ],
)
def test_a_malformed_patch_is_refused(patch: JsonValue) -> None:
    with pytest.raises(PatchRefused) as caught:
        parse_patch(patch)
    assert caught.value.code == "SETTINGS_PATCH_INVALID"


def test_a_refusal_names_operation_and_place_and_no_value() -> None:
    with pytest.raises(PatchRefused) as caught:
        patched(
            [replace("/lane", "x"), replace("/limits/cpu", "secret-value")],
            rule("/lane", "replace"),
        )
    text = str(caught.value)
    assert text == "operation 2 (replace /limits/cpu): human may not replace there"


@pytest.mark.parametrize("pointer", ["x", "/~", "/~2", "/\ud800", 5, "/" + "x" * 1_024])
def test_a_wrong_pointer_is_refused(pointer: object) -> None:
    with pytest.raises(PointerInvalid):
        pointer_tokens(pointer)


SCALARS: Final = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3)
DOCUMENTS: Final = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "~", "/"]), inner, max_size=3)
    ),
    max_leaves=8,
)
POINTERS: Final = st.lists(
    st.sampled_from(["a", "b", "~0", "~1", "0", "1", "-", "00"]), max_size=3
).map(lambda parts: "".join(f"/{part}" for part in parts))
OPERATIONS: Final = st.one_of(
    st.builds(lambda p, v: {"op": "add", "path": p, "value": v}, POINTERS, DOCUMENTS),
    st.builds(lambda p, v: {"op": "replace", "path": p, "value": v}, POINTERS, DOCUMENTS),
    st.builds(lambda p: {"op": "remove", "path": p}, POINTERS),
    st.builds(lambda p, f: {"op": "move", "from": f, "path": p}, POINTERS, POINTERS),
    st.builds(lambda p, f: {"op": "copy", "from": f, "path": p}, POINTERS, POINTERS),
)


@given(DOCUMENTS, st.lists(OPERATIONS, min_size=1, max_size=4))
def test_a_patch_is_carried_out_whole_or_not_at_all(
    document: JsonValue, patch: list[JsonValue]
) -> None:
    """Whatever it is: a refusal of ours or a result that is JSON, and never another error."""
    before = canonical_bytes(document)
    try:
        made = patched(patch, document=document)
    except PatchRefused:
        pass
    else:
        assert canonical_bytes(made)
    assert canonical_bytes(document) == before
