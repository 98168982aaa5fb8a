"""What is wrong with a workflow file or its input is the caller's to mend, and said so."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.client.scripted import Answer
from pi_workflows.protocol.errors import GRAPH_CODES

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke, Serve

ERRORS_PAGE: Final = Path(__file__).parents[2] / "docs" / "errors.md"
CODES: Final = sorted(
    {
        *GRAPH_CODES,
        "DEFINITION_INVALID",
        "INPUT_REJECTED",
        "NODE_CANNOT_RUN",
        "NOTIFY_NEEDS_SESSION",
        "NOT_JSON",
        "SOURCE_FAILED",
        "SOURCE_NOT_A_WORKFLOW",
        "SETTINGS_REJECTED",
        "SOURCE_UNKNOWN",
        "TITLE_FAILED",
        "TITLE_TIMEOUT",
    }
)


@pytest.mark.parametrize("code", CODES)
def test_a_refused_workflow_exits_with_2_and_its_code_is_explained(
    serve: "Serve", invoke: "Invoke", code: str
) -> None:
    refused = Answer(outcome="rejected", error="no", receipt={"code": code})
    with serve({"run.start": refused}):
        ended = invoke("run", "echo")
    assert (ended.exit_code, ended.stderr) == (2, "pi-workflows: no\n")
    assert f"`{code}`" in ERRORS_PAGE.read_text()


def test_every_code_of_a_graph_is_known() -> None:
    """They are written where they are found; this list is what exit codes go by."""
    authoring = Path(__file__).parents[2] / "pi_workflows" / "authoring"
    source = "".join(path.read_text() for path in sorted(authoring.glob("*.py")))
    assert [code for code in GRAPH_CODES if f'"{code}"' not in source] == []
