"""The example `post_letter` as its first lines tell it: kill, list, look, say, watch."""

import json
import os
import signal
from pathlib import Path
from typing import Final

from multiproc_tests.harness.home import Home

EXAMPLE: Final = Path(__file__).resolve().parents[1] / "examples" / "post_letter.workflow.py"
REASON: Final = "it is in the box"


def test_letter_of_a_killed_server_is_ambiguous_until_somebody_has_looked(home: Home) -> None:
    """The box is a pipe, so the kill comes when the letter is in it and nobody has confirmed.

    Case: A51, B34.
    """
    box = home.project / "letters"
    os.mkfifo(box)
    given = json.dumps({"box": str(box), "text": "hello", "office_seconds": 600})
    started = json.loads(home.command("run", str(EXAMPLE), "--input", given, "--detach", "--json"))
    assert box.read_text() == "Dear all, hello\n"
    os.kill(json.loads(home.command("server", "status", "--json"))["pid"], signal.SIGKILL)
    (effect,) = map(json.loads, home.command("effects", "--json").splitlines())
    facts = [effect[name] for name in ("nodeId", "effectType", "status")]
    assert facts == ["post", "letter.post", "ambiguous"]
    said = ("--applied", "--reason", REASON, "--output", '{"posted": "Dear all, hello"}')
    home.command("effects", "resolve", effect["effectId"], *said)
    watched = home.command("watch", started["runId"])
    assert watched.splitlines()[-1] == "posted: Dear all, hello"
    assert home.command("effects") == ""
    home.assert_verified()
