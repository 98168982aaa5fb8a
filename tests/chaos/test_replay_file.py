"""A replay file says exactly what it needs, and is read strictly."""

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.chaos.outcome import Finding
from runtime.chaos.replay_file import ReplayFile, ReplayFileRefused, read_replay_file

VERSIONS = {"piWorkflows": "0.1.0", "sqlite": "3.54.1"}
FINDING = Finding(
    scenario="one_winner",
    engine="orders",
    promise="P3",
    complaint="two events of generation 1",
    choices={"worker-0 after claim#1": "clock +31 s"},
    seed=None,
    timeline=(),
    digest="ab" * 32,
)


def document() -> dict[str, Any]:
    text = ReplayFile.of(FINDING, "mine.py::one_winner", VERSIONS).text()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def complaint_about(path: Path) -> str:
    with pytest.raises(ReplayFileRefused) as refused:
        read_replay_file(path)
    assert str(refused.value).count(str(path)) == 1
    return str(refused.value)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    written = ReplayFile.of(FINDING, "mine.py::one_winner", VERSIONS)
    path = tmp_path / "made" / "one.json"
    written.write(path)
    assert read_replay_file(path) == written
    assert path.read_text() == written.text()


def test_it_holds_the_documented_members() -> None:
    assert document() == {
        "format": "pi-workflows.chaos-replay.v1",
        "scenario": "mine.py::one_winner",
        "engine": "orders",
        "seed": None,
        "choices": {"worker-0 after claim#1": "clock +31 s"},
        "versions": VERSIONS,
        "violation": {"promise": "P3", "complaint": "two events of generation 1"},
        "traceSha256": "ab" * 32,
    }


def test_other_versions_are_told_apart() -> None:
    written = ReplayFile.of(FINDING, "one_winner", VERSIONS)
    assert written.differences(VERSIONS) == []
    assert written.differences(VERSIONS | {"sqlite": "3.55.0"}) == [
        "sqlite is 3.55.0, was 3.54.1",
    ]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": "something else"}, '"format" is not'),
        ({"seed": "7"}, '"seed" is neither'),
        ({"seed": True}, '"seed" is neither'),
        ({"choices": []}, '"choices" is no object'),
        ({"choices": {"claim": "x"}}, 'names "claim"'),
        ({"choices": {"claim#0": "x"}}, 'names "claim#0"'),
        ({"choices": {"claim#1": 1}}, '"choices": claim#1 is no text'),
        ({"violation": {"promise": "P3"}}, '"violation" lacks complaint'),
        ({"traceSha256": "AB"}, '"traceSha256" has not 64'),
        ({"scenario": ""}, '"scenario" is no text'),
        ({"more": 1}, "has more, which nobody knows"),
    ],
)
def test_a_wrong_member_is_named(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(document() | change))
    assert complaint in complaint_about(path)


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    for key in set(document()) - {"format"}:
        path.write_text(json.dumps({name: it for name, it in document().items() if name != key}))
        assert f"lacks {key}" in complaint_about(path)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    assert "there is no file" in complaint_about(path)
    for text in ("", "[]", "{", '{"format": 1, "format": 2}', "\x00"):
        path.write_text(text)
        assert "is no replay file" in complaint_about(path)
    path.write_bytes(b" " * 5_000_000)
    assert "is larger than" in complaint_about(path)
    assert "cannot be read" in complaint_about(tmp_path)
