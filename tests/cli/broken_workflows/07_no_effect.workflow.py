"""An action that does not say what a crash in the middle of it means."""

from pi_workflows import Workflow

wf = Workflow("no_effect")


@wf.action()
def send() -> str:
    return "sent"


workflow = wf.build(start=send)
