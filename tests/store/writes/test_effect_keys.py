"""The key of an effect names its place in the compiled graph, not the name in its file."""

import itertools
from typing import TYPE_CHECKING, Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_text
from pi_workflows.protocol.states import MountRole
from store.blobs import Blob
from store.proposals import CrossMount

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore

SEND: Final[JsonObject] = {"type": "mail.send", "recovery": "manual"}


def mounted(name: str) -> list[JsonValue]:
    """Return the nodes of one mount of the same child: entry, `send`, exit."""
    leave: JsonObject = {
        "id": f"{name}/__piw_exit_sent",
        "type": "compute",
        "mountPath": name,
        "localId": "__piw_exit_sent",
        "role": "exit",
        "exit": "sent",
        "validated": False,
    }
    send: JsonObject = {
        "id": f"{name}/send",
        "type": "action",
        "mountPath": name,
        "localId": "send",
        "effect": SEND,
    }
    return [{"id": name, "type": "compute", "role": "entry"}, send, leave]


def test_equal_local_names_in_two_mounts_have_two_keys(store: "WriteStore") -> None:
    """Each mail is sent, and neither adopts the other's result.

    Case: A47.
    """
    path = ["left", "left/send", "left/__piw_exit_sent", "right", "right/send"]
    graph: JsonObject = {
        "schema": "pi-workflows.definition-snapshot.v1",
        "name": "twice",
        "startAt": "left",
        "maxSteps": 9,
        "nodes": [*mounted("left"), *mounted("right")],
        "edges": [{"from": here, "to": there} for here, there in itertools.pairwise(path)],
        "mounts": [
            {"path": name, "name": "sender", "startAt": "send", "maxSteps": 3, "exits": []}
            for name in ("left", "right")
        ],
        "settings": None,
    }
    run = store.create(graph=graph).begin()
    for name in ("left", "right"):
        start = run.started(name)
        entered: JsonObject = {
            "schema": "pi-workflows.include-entry.v1",
            "invocation": 1,
            "input": None,
        }
        entry = (start.attempt_id, name, MountRole.ENTRY, Blob.of_json(entered), entered)
        run.advance(start, CrossMount(*entry))
        run.work(run.started(f"{name}/send"))
        if name == "left":
            start = run.started("left/__piw_exit_sent")
            left: JsonObject = {"exit": "sent", "output": {"from": "left/send"}}
            leaving = (start.attempt_id, start.node_id, MountRole.EXIT, Blob.of_json(left), left)
            run.advance(start, CrossMount(*leaving))
    found = store.rows("SELECT idempotency_key, status, attempt_count FROM effects ORDER BY 1")
    assert found == [
        (canonical_text([run.run_id, "mail.send", f"{name}/send", 1]), "applied", 1)
        for name in ("left", "right")
    ]
