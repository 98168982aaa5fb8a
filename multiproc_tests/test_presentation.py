"""A workflow says how its result is to be presented, after the end and without power over it."""

import pytest

from multiproc_tests.harness.home import Home

PROMPTED = """
wf = Workflow("prompted", presentation_prompt=PROMPT)

@wf.compute()
def only() -> int:
    return 42

workflow = wf.build(start=only)
"""


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ('"Say it in one sentence."', "Say it in one sentence."),
        ('lambda given, output: f"Say that it is {output}."', "Say that it is 42."),
        ("lambda given, output: None", None),
        ("lambda given, output: 1 / 0", None),
        ('lambda given, output: __import__("os")._exit(3)', None),
        ('lambda given, output: "x" * 70_000', None),
    ],
    ids=["text", "callback", "nothing", "failure", "death", "too much"],
)
def test_presentation_is_stored_after_the_end_or_fails_alone(
    home: Home, prompt: str, text: str | None
) -> None:
    """Case: B6."""
    home.servers.start()
    run_id = home.run(PROMPTED.replace("PROMPT", prompt))
    home.await_status(run_id, "completed")
    home.servers.alive[0].stop()
    home.servers.start()
    state = home.show(run_id)
    assert (state["status"], state["finalOutput"]) == ("completed", 42)
    assert state.get("presentationPrompt") == text
    assert home.notes() == []
    home.assert_verified()
