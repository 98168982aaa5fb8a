"""Invariants of runs and of what runs leave open: queue, requests, clocks, turns, tries."""

from typing import Final

from store.verification_rules import FoundRow, Rule

# Settled together, or still to be settled by an effect that says so.
SELECT_QUEUE_STATE: Final = """
    SELECT r.run_id, 'run ' || r.status || ', queue ' || q.status AS detail
      FROM run_queue AS q JOIN runs AS r ON r.run_id = q.run_id
     WHERE (q.finished_at IS NOT NULL
            OR (r.finished_at IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM effects AS e
                                 WHERE e.source_resource_id = r.resource_id
                                   AND e.effect_type = 'run.settle_queue'
                                   AND e.status = 'pending')))
       AND (r.status, q.status) NOT IN (VALUES ('completed', 'done'), ('failed', 'failed'),
                                               ('timed_out', 'failed'),
                                               ('cancelled', 'cancelled'))
     ORDER BY r.run_id LIMIT :limit
"""

# A run also waits, without any request, for the outcome of an ambiguous effect; once that is
# known it is due again and waits for a runner.
SELECT_WAITING_REQUEST: Final = """
    SELECT r.run_id, 'waiting without a request that could end it' AS detail
      FROM runs AS r
     WHERE r.status = 'waiting'
       AND NOT EXISTS (SELECT 1 FROM interactive_requests AS i
                        WHERE i.run_id = r.run_id
                          AND (i.status = 'pending'
                               OR (i.status = 'settled' AND i.consumed_at IS NULL)))
       AND NOT EXISTS (SELECT 1 FROM effects AS e
                        WHERE e.source_resource_id = r.resource_id AND e.status = 'ambiguous')
       AND NOT EXISTS (SELECT 1 FROM run_queue AS q
                        WHERE q.run_id = r.run_id AND q.status = 'queued')
     ORDER BY r.run_id LIMIT :limit
"""

SELECT_PENDING_REQUEST: Final = """
    SELECT r.run_id,
           'pending request of a run that is ' || r.status || ', on an attempt that is '
           || CASE WHEN a.run_id = r.run_id THEN a.status ELSE 'another run''s' END AS detail
      FROM interactive_requests AS i
      JOIN runs AS r ON r.run_id = i.run_id
      JOIN node_attempts AS a ON a.attempt_id = i.attempt_id
     WHERE i.status = 'pending'
       AND (a.run_id <> i.run_id OR a.finished_at IS NOT NULL
            OR r.status NOT IN ('running', 'waiting'))
     ORDER BY r.run_id LIMIT :limit
"""

SELECT_ACCEPTED_REQUEST: Final = """
    SELECT i.run_id,
           'settled by a submission that is '
           || CASE WHEN s.submission_id IS NULL THEN 'missing'
                   WHEN s.request_id <> i.request_id THEN 'another request''s'
                   ELSE s.outcome END AS detail
      FROM interactive_requests AS i
      LEFT JOIN interactive_submissions AS s ON s.submission_id = i.accepted_submission_id
     WHERE i.status = 'settled'
       AND (s.submission_id IS NULL OR s.request_id <> i.request_id OR s.outcome <> 'accepted')
     ORDER BY i.run_id LIMIT :limit
"""

SELECT_ACTIVE_CLOCK: Final = """
    SELECT r.run_id,
           'open interval of an attempt that is ' || a.status || ', run ' || r.status
           || CASE WHEN r.paused THEN ' and paused' ELSE '' END
           || CASE WHEN a.timeout_ms IS NULL THEN ', no timeout configured' ELSE '' END AS detail
      FROM attempt_active_intervals AS c
      JOIN node_attempts AS a ON a.attempt_id = c.attempt_id
      JOIN runs AS r ON r.run_id = a.run_id
     WHERE c.ended_at IS NULL
       AND (r.paused = 1 OR r.status NOT IN ('running', 'waiting')
            OR a.status NOT IN ('pending', 'running', 'waiting') OR a.timeout_ms IS NULL)
     ORDER BY r.run_id LIMIT :limit
"""

SELECT_SESSION_TURNS: Final = """
    SELECT min(t.run_id) AS run_id, count(*) || ' open turns in one session' AS detail
      FROM workflow_turns AS t
     WHERE t.state = 'started'
     GROUP BY t.target_session_id HAVING count(*) > 1
     ORDER BY 1 LIMIT :limit
"""

SELECT_STEP_ORDER: Final = """
    SELECT s.run_id, count(*) || ' steps, the last has index ' || max(s.step_index) AS detail
      FROM run_steps AS s
     GROUP BY s.run_id HAVING max(s.step_index) <> count(*) - 1
     ORDER BY s.run_id LIMIT :limit
"""

SELECT_ATTEMPT_COUNT: Final = """
    SELECT a.run_id, count(*) || ' unfinished attempts' AS detail
      FROM node_attempts AS a
     WHERE a.finished_at IS NULL
     GROUP BY a.run_id HAVING count(*) > 1
     ORDER BY a.run_id LIMIT :limit
"""

SELECT_TERMINAL_OPEN_WORK: Final = """
    SELECT r.run_id, 'ended with an open turn' AS detail
      FROM runs AS r JOIN workflow_turns AS t ON t.run_id = r.run_id
      JOIN workflow_messages AS m ON m.workflow_message_id = t.workflow_message_id
     WHERE r.finished_at IS NOT NULL AND t.state = 'started' AND m.kind <> 'terminal'
    UNION ALL
    SELECT r.run_id, 'ended with a pending ' || m.kind || ' message'
      FROM runs AS r JOIN workflow_messages AS m ON m.run_id = r.run_id
     WHERE r.finished_at IS NOT NULL AND m.status = 'pending' AND m.kind IN ('step', 'decision')
    UNION ALL
    SELECT r.run_id, 'ended without success and with a queued follow-up'
      FROM runs AS r JOIN workflow_follow_ups AS f ON f.run_id = r.run_id
     WHERE r.status IN ('failed', 'timed_out', 'cancelled') AND f.status = 'queued'
    UNION ALL
    SELECT r.run_id, 'has a ' || f.status || ' follow-up with a pending message'
      FROM runs AS r JOIN workflow_follow_ups AS f ON f.run_id = r.run_id
      JOIN workflow_messages AS m ON m.run_id = f.run_id AND m.source_id = f.follow_up_id
     WHERE f.status <> 'queued' AND m.kind = 'followUp' AND m.status = 'pending'
    UNION ALL
    SELECT r.run_id, 'ended with an attempt that is ' || a.status
      FROM runs AS r JOIN node_attempts AS a ON a.run_id = r.run_id
     WHERE r.finished_at IS NOT NULL AND a.finished_at IS NULL
    UNION ALL
    SELECT r.run_id, 'ended with a live lease'
      FROM runs AS r JOIN leases AS l ON l.resource_id = r.resource_id
     WHERE r.finished_at IS NOT NULL AND l.expires_at > :now
     ORDER BY 1, 2 LIMIT :limit
"""

ROW_STATEMENTS: Final = {
    "SELECT_QUEUE_STATE": FoundRow,
    "SELECT_WAITING_REQUEST": FoundRow,
    "SELECT_PENDING_REQUEST": FoundRow,
    "SELECT_ACCEPTED_REQUEST": FoundRow,
    "SELECT_ACTIVE_CLOCK": FoundRow,
    "SELECT_SESSION_TURNS": FoundRow,
    "SELECT_STEP_ORDER": FoundRow,
    "SELECT_ATTEMPT_COUNT": FoundRow,
    "SELECT_TERMINAL_OPEN_WORK": FoundRow,
}

RULES: Final = (
    Rule("queueState", SELECT_QUEUE_STATE),
    Rule("waitingRequest", SELECT_WAITING_REQUEST),
    Rule("pendingRequest", SELECT_PENDING_REQUEST),
    Rule("acceptedRequest", SELECT_ACCEPTED_REQUEST),
    Rule("activeClock", SELECT_ACTIVE_CLOCK),
    Rule("sessionTurns", SELECT_SESSION_TURNS),
    Rule("stepOrder", SELECT_STEP_ORDER),
    Rule("attemptCount", SELECT_ATTEMPT_COUNT),
    Rule("terminalOpenWork", SELECT_TERMINAL_OPEN_WORK),
)
