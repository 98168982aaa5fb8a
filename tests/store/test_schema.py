"""The tables are exactly the specified ones: columns, keys, links, indexes and closed sets."""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw
import pytest

from store.schema import DDL, expected_shape, shape

ACTIONS: Final = {"=>": "CASCADE", "->": "NO ACTION", "~>": "SET NULL"}
COLUMN: Final = re.compile(
    r"(?P<name>\w+)(?P<unlinked>!)?(?P<check>>=?0)?(?: (?P<kind>I|B|bool|\{.*\}))?(?P<null>\?)?"
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column as specified."""

    name: str
    check: str | None
    kind: str | None
    nullable: bool
    linked: bool

    @property
    def storage(self) -> str:
        if self.kind in {"I", "bool"} or self.check or self.name.endswith("_at"):
            return "INTEGER"
        if self.kind == "B" or re.search("_(hash|digest|fingerprint)$", self.name):
            return "BLOB"
        return "TEXT"

    @property
    def members(self) -> list[str]:
        return self.kind[1:-1].split("|") if self.kind and self.kind.startswith("{") else []

    @property
    def is_blob_link(self) -> bool:
        plain = {"token_hash", "blob_hash"}
        return self.linked and self.name.endswith("_hash") and self.name not in plain

    @property
    def is_digest(self) -> bool:
        return self.storage == "BLOB" and self.kind is None and not self.is_blob_link


@dataclass(slots=True)
class Table:
    """One table as specified."""

    columns: list[Column]
    keys: dict[str, list[str]] = field(default_factory=dict)


def parse() -> dict[str, Table]:
    tables: dict[str, Table] = {}
    table = Table([])
    for line in (Path(__file__).parent / "tables.txt").read_text("utf-8").splitlines():
        if line.startswith("  "):
            keyword, _, rest = line.strip().partition(" ")
            table.keys.setdefault(keyword, []).append(rest)
        elif line and not line.startswith("#"):
            name, _, columns = line.partition(": ")
            table = tables[name] = Table([parse_column(text) for text in columns.split("; ")])
    return tables


def parse_column(text: str) -> Column:
    found = COLUMN.fullmatch(text)
    assert found, text
    return Column(
        found["name"], found["check"], found["kind"], bool(found["null"]), not found["unlinked"]
    )


TABLES: Final = parse()


def fresh() -> apsw.Connection:
    """An empty database without foreign keys, so that one row can be looked at alone."""
    connection = apsw.Connection(":memory:")
    connection.execute(DDL)
    return connection


@functools.cache
def shared() -> apsw.Connection:
    """The one that tests use which leave nothing behind."""
    return fresh()


def index_columns(connection: apsw.Connection, index: str) -> str:
    return ", ".join(str(row[2]) for row in connection.execute(f"PRAGMA index_info({index})"))


def names(connection: apsw.Connection, sql: str) -> list[str]:
    """Returns the first column of a query as texts."""
    return [str(row[0]) for row in connection.execute(sql)]


def indexes(connection: apsw.Connection, table: str) -> Iterator[tuple[str, str, str]]:
    """Yields kind (pk, u, ux, i), columns with their WHERE, and name of each index."""
    for row in connection.execute(f"PRAGMA index_list({table})").fetchall():
        name, unique, origin, partial = str(row[1]), row[2], row[3], row[4]
        sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).get
        where = " WHERE " + str(sql).partition(" WHERE ")[2] if partial else ""
        kind = "pk" if origin == "pk" else "u" if unique and not partial else "ux"
        yield kind if unique else "i", index_columns(connection, name) + where, name


def test_there_are_exactly_the_46_strict_tables_and_no_views_or_triggers() -> None:
    """Every table is STRICT; nothing acts behind a command's back.

    Case: A2.
    """
    connection = fresh()
    strict = names(
        connection, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict"
    )
    assert len(strict) == len(TABLES) == 46
    assert set(strict) == set(TABLES)
    every = names(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    assert set(every) - set(strict) == {"sqlite_sequence"}  # What AUTOINCREMENT needs.
    kinds = names(connection, "SELECT DISTINCT type FROM sqlite_schema ORDER BY type")
    assert kinds == ["index", "table"]


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_as_specified(table: str) -> None:
    """Names, order, types and nullability.

    Case: A2.
    """
    found = fresh().execute(f"PRAGMA table_xinfo({table})").fetchall()
    assert [(row[1], row[2], bool(row[3])) for row in found] == [
        (column.name, column.storage, not column.nullable) for column in TABLES[table].columns
    ]
    assert {(row[4], row[6]) for row in found} == {(None, 0)}  # No defaults, no generated ones.


@pytest.mark.parametrize("table", TABLES)
def test_foreign_keys_are_as_specified(table: str) -> None:
    """Every link, with its action; every stored hash leads to a blob.

    Case: A2, D1.
    """
    specified = {
        (column.name, "blobs", "NO ACTION")
        for column in TABLES[table].columns
        if column.is_blob_link
    }
    for text in TABLES[table].keys.get("fk", []):
        columns, arrow, target = re.split(" (=>|->|~>) ", text)
        specified.add((columns, target, ACTIONS[arrow]))
    found: dict[int, tuple[list[str], str, str]] = {}
    for number, _, target, column, _, update, delete, match in fresh().execute(
        f"PRAGMA foreign_key_list({table})"
    ):
        found.setdefault(number, ([], target, delete))[0].append(column)
        assert (update, match) == ("NO ACTION", "NONE")
    links = {(", ".join(columns), target, action) for columns, target, action in found.values()}
    assert links == specified
    assert len(found) == len(specified)


@pytest.mark.parametrize("table", TABLES)
def test_keys_and_indexes_are_as_specified(table: str) -> None:
    """Primary keys, unique keys, partial unique keys; plain indexes at least the specified ones.

    Case: A2, D1.
    """
    connection = fresh()
    found: dict[str, list[str]] = {}
    for kind, columns, _ in indexes(connection, table):
        found.setdefault(kind, []).append(columns)
    info = connection.execute(f"PRAGMA table_info({table})").fetchall()
    key = sorted((row[5], row[1]) for row in info if row[5])
    specified = TABLES[table].keys
    assert [", ".join(str(name) for _, name in key)] == specified["pk"]
    for kind in ("u", "ux"):
        assert sorted(found.get(kind, [])) == sorted(specified.get(kind, []))
    assert set(specified.get("i", [])) <= set(found.get("i", []))


def test_links_that_cascade_are_found_through_an_index() -> None:
    """Deleting a run must not scan the tables of all other runs."""
    connection = fresh()
    for table in TABLES:
        prefixes = {
            columns.partition(" WHERE ")[0] for _, columns, _ in indexes(connection, table)
        }
        for text in TABLES[table].keys.get("fk", []):
            columns = re.split(" (?:=>|->|~>) ", text)[0]
            covered = any(f"{prefix}, ".startswith(f"{columns}, ") for prefix in prefixes)
            assert covered or TABLES[table].keys["pk"] == [columns], f"{table}: {text}"


def test_shape_shows_one_changed_letter() -> None:
    connection = fresh()
    assert shape(connection) == expected_shape()
    assert len(expected_shape()) > 20
    changed = apsw.Connection(":memory:")
    changed.execute(DDL.replace("-- The one winner of a decision", "-- the one", 1))
    assert shape(changed) == expected_shape()  # A comment between statements.
    changed = apsw.Connection(":memory:")
    changed.execute(DDL.replace("CHECK (epoch >= 0)", "CHECK (epoch > -1)"))
    assert shape(changed) != expected_shape()


# What a row is refused for. Every table has one good row; each test spoils one fact of it.

GOOD: Final[dict[str, dict[str, object]]] = {
    "schema_meta": {"schema_name": "pi-workflows-state"},
    "blobs": {"byte_length": 32},
    "run_view_content": {"byte_length": 32},
    "runs": {"restart_number": 0, "paused": 0},
    "human_decision_resolutions": {"response_hash": bytes(32)},
    "run_bindings": {"origin_session_id": "x"},
}
PLAIN: Final[dict[str, object]] = {"TEXT": "x", "INTEGER": 1, "BLOB": bytes(32)}


def good_row(table: str) -> dict[str, object]:
    """Returns the least row that every constraint accepts."""
    row = {
        column.name: column.members[0] if column.members else PLAIN[column.storage]
        for column in TABLES[table].columns
        if not column.nullable
    }
    return {**row, **GOOD.get(table, {})}


def insert(table: str, row: dict[str, object]) -> None:
    columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
    connection = shared()
    connection.execute("BEGIN")
    try:
        text = f"INSERT INTO {table} ({columns}) VALUES ({values})"  # noqa: S608 - our own names
        connection.execute(text, row)
    finally:
        connection.execute("ROLLBACK")


def refusal(table: str, **spoiled: object) -> str:
    """Returns why the good row with these values instead is refused."""
    with pytest.raises(apsw.ConstraintError) as refused:
        insert(table, {**good_row(table), **spoiled})
    return str(refused.value).removeprefix("CHECK constraint failed: ")


@pytest.mark.parametrize("table", TABLES)
def test_good_row_is_accepted(table: str) -> None:
    insert(table, good_row(table))


@pytest.mark.parametrize("table", TABLES)
def test_column_refuses_what_it_is_not_for(table: str) -> None:
    """An unknown member of a set, a counter below its start, a cut digest, a missing value.

    Case: A8.
    """
    for column in TABLES[table].columns:
        for value, complaint in spoilers(column):
            assert complaint in refusal(table, **{column.name: value})
        if not column.nullable and (table, column.name) not in ROW_NUMBERS:
            assert "NOT NULL constraint failed" in refusal(table, **{column.name: None})


def spoilers(column: Column) -> Iterator[tuple[object, str]]:
    """Yields values that a column refuses whatever the others hold, and what SQLite says."""
    if column.members:
        yield "unknown", f"{column.name} IN ("
    if column.check:
        yield -1, f"{column.name} {column.check[:-1]} 0"
    if column.check == ">0":
        yield 0, f"{column.name} > 0"
    if column.is_digest:
        yield bytes(31), f"length({column.name}) = 32"
    if column.kind == "bool":
        yield 2, f"{column.name} IN (0, 1)"


# INTEGER primary keys take the next number for null, and then meet their CHECK.
ROW_NUMBERS: Final = {
    ("schema_meta", "id"),
    ("workflow_host_state", "id"),
    ("events", "event_seq"),
}


@pytest.mark.parametrize("table", TABLES)
def test_closed_sets_hold_exactly_the_specified_members(table: str) -> None:
    """No member is missing and none is added, also where another fact would refuse the row."""
    sql = str(shared().execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get)
    for column in TABLES[table].columns:
        definition = re.search(rf"\n    {column.name} (.*?)\n(?:    \S|\))", sql, re.DOTALL)
        assert definition
        listed = definition[1].partition(f"{column.name} IN (")[2]
        assert re.findall(r"'([^']*)'", listed) == column.members


HASH: Final = bytes(32)
HELD: Final = dict.fromkeys(("token_hash", "acquired_at", "heartbeat_at", "expires_at"), 1) | {
    "token_hash": HASH
}
SPOILED: Final = [
    ("blobs_length_is_true", "blobs", {"byte_length": 31}),
    ("run_view_content_length_is_true", "run_view_content", {"byte_length": 31}),
    ("leases_free_or_held", "leases", {"owner_type": "host"}),
    *(
        ("leases_free_or_held", "leases", {"owner_type": "host", "owner_id": "x", **HELD, n: None})
        for n in ("owner_id", *HELD)
    ),
    ("workflow_host_state_free_or_held", "workflow_host_state", {"host_id": "x"}),
    ("workflow_host_state_free_or_held", "workflow_host_state", {"expires_at": 1}),
    ("run_workers_process_is_exact", "run_workers", {"pid": 1}),
    ("interactive_requests_settled_by_answer", "interactive_requests", {"status": "settled"}),
    (
        "interactive_requests_settled_by_answer",
        "interactive_requests",
        {"accepted_submission_id": "x", "settled_at": 1},
    ),
    ("interactive_requests_consumed_after_settled", "interactive_requests", {"consumed_at": 1}),
    ("runs_terminal_is_finished", "runs", {"status": "completed"}),
    ("runs_terminal_is_finished", "runs", {"status": "waiting", "finished_at": 1}),
    ("runs_lineage_is_whole", "runs", {"parent_run_id": "x"}),
    ("runs_lineage_is_whole", "runs", {"parent_run_id": "x", "lineage_kind": "restart"}),
    ("runs_root_is_number_zero", "runs", {"restart_number": 1}),
    ("runs_recovery_is_whole", "runs", {"recovery_root_run_id": "x"}),
    ("runs_terminal_is_not_paused", "runs", {"status": "failed", "finished_at": 1, "paused": 1}),
    ("run_bindings_headless_has_no_session", "run_bindings", {"origin_session_id": None}),
    ("run_bindings_headless_has_no_session", "run_bindings", {"execution_mode": "headless"}),
    ("run_queue_settled_is_finished", "run_queue", {"status": "done"}),
    ("run_queue_settled_is_finished", "run_queue", {"finished_at": 1}),
    ("node_attempts_settings_are_whole", "node_attempts", {"settings_scope_id": "x"}),
    ("node_attempts_terminal_is_finished", "node_attempts", {"status": "timed_out"}),
    (
        "node_attempts_terminal_is_finished",
        "node_attempts",
        {"status": "interrupted", "finished_at": 1},
    ),
    ("workflow_settings_stay_with_run", "workflow_settings", {"active_run_id": "another"}),
    ("workflow_follow_ups_end_has_reason", "workflow_follow_ups", {"status": "removed"}),
    ("human_decisions_default_needs_deadline", "human_decisions", {"default_response_hash": HASH}),
    (
        "human_decision_resolutions_outcome_is_whole",
        "human_decision_resolutions",
        {"provenance": "explicit_cancel"},
    ),
    (
        "human_decision_resolutions_outcome_is_whole",
        "human_decision_resolutions",
        {"outcome": "cancelled", "provenance": "explicit_cancel", "response_hash": None},
    ),
    ("effects_settled_is_known", "effects", {"status": "applied"}),
    ("effects_settled_is_known", "effects", {"status": "ambiguous", "settled_at": 1}),
    ("effect_attempts_end_has_outcome", "effect_attempts", {"finished_at": 1}),
    ("workflow_messages_sent_has_entry", "workflow_messages", {"status": "sent"}),
    (
        "workflow_messages_recovery_is_terminal",
        "workflow_messages",
        {"recovery_stop": "timed_out"},
    ),
    ("workflow_turns_end_is_whole", "workflow_turns", {"state": "ended"}),
    ("workflow_turns_end_is_whole", "workflow_turns", {"ended_at": 1}),
    ("retained_from_revision BETWEEN 1", "viewer_runs", {"retained_from_revision": 2}),
    ("retained_from_revision BETWEEN 1", "viewer_runs", {"retained_from_revision": 0}),
    ("id = 1", "schema_meta", {"id": 2}),
    ("id = 1", "workflow_host_state", {"id": 2}),
    ("schema_name = 'pi-workflows-state'", "schema_meta", {"schema_name": "another"}),
    ("schema_version = 1", "schema_meta", {"schema_version": 2}),
]


@pytest.mark.parametrize(("constraint", "table", "spoiled"), SPOILED)
def test_facts_that_contradict_each_other_are_refused(
    constraint: str, table: str, spoiled: dict[str, object]
) -> None:
    """Each "exactly when" between columns, from both sides.

    Case: A80.
    """
    assert constraint in refusal(table, **spoiled)


def test_every_named_constraint_is_tested() -> None:
    assert set(re.findall(r"CONSTRAINT (\w+)", DDL)) <= {row[0] for row in SPOILED}
