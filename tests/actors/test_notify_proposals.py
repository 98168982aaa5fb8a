"""The wire form of a notification: trimmed text within its bound, of a known kind."""

from typing import TYPE_CHECKING

import pytest

from actors.runner_proposals import ProposalMalformed, parse_advance
from pi_workflows.protocol.notices import TEXT_BYTES_MAX
from store.proposals import Notify
from store.run_notifying import content_of

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from store.contents import StagedContent


def stage(_reference: "JsonObject") -> "StagedContent":
    raise AssertionError("a notification has no body beside its message")


def parsed(**changed: object) -> object:
    wire = {
        "type": "notify",
        "attemptId": "attempt-1",
        "nodeId": "tell",
        "kind": "progress",
        "text": "Done",
        **changed,
    }
    (transition,) = parse_advance({"transitions": [wire]}, stage)
    return transition


@pytest.mark.parametrize("text", ["Done", "x" * TEXT_BYTES_MAX])
def test_sound_notification_is_taken(text: str) -> None:
    assert parsed(text=text) == Notify(
        "attempt-1", "tell", "progress", content_of("progress", text)
    )


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"text": ""}, "its text is trimmed and not blank"),
        ({"text": " x"}, "its text is trimmed and not blank"),
        ({"text": "ä" * (TEXT_BYTES_MAX // 2 + 1)}, "65538 bytes"),
        ({"text": "x" * (TEXT_BYTES_MAX + 1)}, "at most 65536 characters"),
        ({"text": 3}, "text"),
        ({"kind": "loud"}, "kind"),
        ({"more": 1}, "more"),
    ],
)
def test_malformed_notification_is_refused(changed: dict[str, object], says: str) -> None:
    with pytest.raises(ProposalMalformed, match=says):
        parsed(**changed)
