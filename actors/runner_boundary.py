"""Where a runner that has said hello is to begin, as it is told."""

from pi_workflows.protocol.canonical import JsonObject
from store.run_claiming import ReadyRun


def boundary(ready: ReadyRun, failed_tries: int) -> JsonObject:
    """Return where the child is to begin: at an interrupted try, or at what routing says."""
    boundary: JsonObject = {"failedTries": failed_tries} if failed_tries else {}
    attempt = ready.interrupted
    if attempt is not None:
        boundary["interrupted"] = {
            "attemptId": attempt.attempt_id,
            "nodeId": attempt.node_id,
            "visit": attempt.visit,
        }
    return boundary
