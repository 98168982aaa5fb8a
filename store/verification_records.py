"""Invariants of what is only ever appended: events, decisions, effects, captures, settings."""

from typing import Final

from store.verification_rules import FoundRow, Rule

SELECT_EVENT_REVISION: Final = """
    SELECT CASE WHEN o.resource_type = 'run' THEN o.aggregate_key ELSE '' END AS run_id,
           o.resource_type || ' at revision ' || o.revision || ' with ' || count(e.event_seq)
           || ' events, the last of revision ' || coalesce(max(e.resource_revision), 0) AS detail
      FROM resources AS o LEFT JOIN events AS e ON e.resource_id = o.resource_id
     GROUP BY o.resource_id
    HAVING o.revision <> count(e.event_seq)
        OR o.revision <> coalesce(max(e.resource_revision), 0)
     ORDER BY o.resource_id LIMIT :limit
"""

# An acceptance settled exactly the request of the same name with exactly that response.
SELECT_DECISION_EFFECTS: Final = """
    SELECT d.run_id, 'resolution ' || x.outcome || ' without settling its presentations' AS detail
      FROM human_decision_resolutions AS x
      JOIN human_decisions AS d ON d.decision_id = x.decision_id
     WHERE NOT EXISTS (SELECT 1 FROM effects AS e
                        WHERE e.source_resource_id = d.resource_id
                          AND e.effect_type = 'decision.settle_presentations')
    UNION ALL
    SELECT d.run_id, 'resolution cancelled without cancelling its run'
      FROM human_decision_resolutions AS x
      JOIN human_decisions AS d ON d.decision_id = x.decision_id
     WHERE x.outcome = 'cancelled'
       AND NOT EXISTS (SELECT 1 FROM effects AS e
                        WHERE e.source_resource_id = d.resource_id
                          AND e.effect_type = 'decision.cancel_parent')
    UNION ALL
    SELECT d.run_id, 'resolution accepted, its request not settled with it'
      FROM human_decision_resolutions AS x
      JOIN human_decisions AS d ON d.decision_id = x.decision_id
     WHERE x.outcome = 'accepted'
       AND NOT EXISTS (SELECT 1 FROM interactive_requests AS i
                         JOIN interactive_submissions AS s
                           ON s.submission_id = i.accepted_submission_id
                        WHERE i.request_id = x.decision_id AND i.status = 'settled'
                          AND s.payload_hash = x.response_hash)
     ORDER BY 1, 2 LIMIT :limit
"""

SELECT_EFFECT_ATTEMPTS: Final = """
    SELECT CASE WHEN o.resource_type = 'run' THEN o.aggregate_key ELSE '' END AS run_id,
           f.effect_type || ' effect counts ' || f.attempt_count || ' attempts and has '
           || count(t.attempt_number) || ', the last is number '
           || coalesce(max(t.attempt_number), 0) AS detail
      FROM effects AS f
      JOIN resources AS o ON o.resource_id = f.source_resource_id
      LEFT JOIN effect_attempts AS t ON t.effect_id = f.effect_id
     GROUP BY f.effect_id
    HAVING f.attempt_count <> count(t.attempt_number)
        OR f.attempt_count <> coalesce(max(t.attempt_number), 0)
     ORDER BY f.effect_id LIMIT :limit
"""

SELECT_SEGMENT_COUNTS: Final = """
    SELECT g.run_id,
           'segment counts ' || g.entry_count || ' entries and ' || g.event_count
           || ' events; has ' || g.entries || ' up to ' || g.last_entry || ' and ' || g.events
           || ' up to ' || g.last_event AS detail
      FROM (SELECT s.segment_id, s.run_id, s.entry_count, s.event_count,
                   (SELECT count(*) FROM session_entries AS n
                     WHERE n.segment_id = s.segment_id) AS entries,
                   (SELECT coalesce(max(n.entry_seq), 0) FROM session_entries AS n
                     WHERE n.segment_id = s.segment_id) AS last_entry,
                   (SELECT count(*) FROM session_events AS v
                     WHERE v.segment_id = s.segment_id) AS events,
                   (SELECT coalesce(max(v.event_seq), 0) FROM session_events AS v
                     WHERE v.segment_id = s.segment_id) AS last_event
              FROM session_segments AS s) AS g
     WHERE g.entry_count <> g.entries OR g.entries <> g.last_entry
        OR g.event_count <> g.events OR g.events <> g.last_event
     ORDER BY g.run_id, g.segment_id LIMIT :limit
"""

# Change n starts from what change n-1 left, the first from the initial settings.
SELECT_SETTINGS_CHAIN: Final = """
    SELECT w.origin_run_id AS run_id,
           'the changes do not lead from the initial settings to the current ones' AS detail
      FROM workflow_settings AS w JOIN resources AS o ON o.resource_id = w.resource_id
     WHERE o.revision <> (SELECT count(*) FROM workflow_setting_changes AS c
                           WHERE c.scope_id = w.scope_id)
        OR o.revision <> (SELECT coalesce(max(c.change_number), 0)
                            FROM workflow_setting_changes AS c WHERE c.scope_id = w.scope_id)
        OR w.current_hash <> coalesce((SELECT c.after_hash FROM workflow_setting_changes AS c
                                        WHERE c.scope_id = w.scope_id
                                        ORDER BY c.change_number DESC LIMIT 1), w.initial_hash)
        OR EXISTS (SELECT 1 FROM workflow_setting_changes AS c
                     LEFT JOIN workflow_setting_changes AS b
                       ON b.scope_id = c.scope_id AND b.change_number = c.change_number - 1
                    WHERE c.scope_id = w.scope_id
                      AND c.before_hash <> coalesce(b.after_hash, w.initial_hash))
     ORDER BY w.origin_run_id, w.scope_id LIMIT :limit
"""

ROW_STATEMENTS: Final = {
    "SELECT_EVENT_REVISION": FoundRow,
    "SELECT_DECISION_EFFECTS": FoundRow,
    "SELECT_EFFECT_ATTEMPTS": FoundRow,
    "SELECT_SEGMENT_COUNTS": FoundRow,
    "SELECT_SETTINGS_CHAIN": FoundRow,
}

RULES: Final = (
    Rule("eventRevision", SELECT_EVENT_REVISION),
    Rule("decisionEffects", SELECT_DECISION_EFFECTS),
    Rule("effectAttempts", SELECT_EFFECT_ATTEMPTS),
    Rule("segmentCounts", SELECT_SEGMENT_COUNTS),
    Rule("settingsChain", SELECT_SETTINGS_CHAIN),
)
