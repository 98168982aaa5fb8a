"""Every statement of the store fits the schema, its rows and the enums of the protocol."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Final

import apsw
import apsw.ext
import pytest

import store
from pi_workflows.protocol import states
from pi_workflows.protocol.sources import SourceKind
from store import run_queue
from store.rows import column_names
from store.schema import DDL

VERBS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "UPSERT")
SQL: Final = re.compile(r"\s*(SELECT|WITH|INSERT|REPLACE|UPDATE|DELETE)\s", re.IGNORECASE)


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(store.__path__, "store."):
        yield importlib.import_module(found.name)


def tree_of(module: ModuleType) -> ast.Module:
    assert module.__file__
    return ast.parse(Path(module.__file__).read_text("utf-8"))


def own_texts(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yields name and value of the module's own text constants; imported ones are another's."""
    for node in tree_of(module).body:
        if isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            value = getattr(module, target.id, None) if isinstance(target, ast.Name) else None
            if isinstance(target, ast.Name) and isinstance(value, str):
                yield target.id, value


STATEMENTS: Final = {
    f"{module.__name__}.{name}": text
    for module in modules()
    for name, text in own_texts(module)
    if name.lstrip("_").split("_")[0] in VERBS and name.isupper()
}
ROW_TYPES: Final = {
    f"{module.__name__}.{name}": row_type
    for module in modules()
    for name, row_type in getattr(module, "ROW_STATEMENTS", {}).items()
}


@pytest.fixture(scope="module")
def connection() -> apsw.Connection:
    """An empty database of the schema, as strict about names as the live one."""
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.execute(DDL)
    return connection


def test_statements_are_found() -> None:
    assert "store.schema.SELECT_SCHEMA_META" in STATEMENTS


def test_every_sql_text_is_named_by_its_verb() -> None:
    """A statement under another name would escape the other tests."""
    known = set(STATEMENTS)
    strays = [
        f"{module.__name__}.{name}"
        for module in modules()
        for name, text in own_texts(module)
        if SQL.match(text) and f"{module.__name__}.{name}" not in known
    ]
    assert strays == []


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_compiles_and_does_what_its_name_says(
    connection: apsw.Connection, name: str
) -> None:
    """One statement, named bindings only; only a SELECT leaves the database as it is."""
    text = STATEMENTS[name]
    details = apsw.ext.query_info(connection, text)
    assert not (details.query_remaining or "").strip()
    verb = name.rpartition(".")[2].lstrip("_").split("_")[0]
    assert details.is_readonly == (verb == "SELECT")
    first = text.split()[0].upper()
    assert first in {verb, "WITH"} or (verb, first) == ("UPSERT", "INSERT")
    assert all(re.fullmatch("[a-z][a-z0-9_]*", str(bound)) for bound in details.bindings_names)
    assert not re.search(r"[@$?]\w*", re.sub(r"'[^']*'", "", text)), "bindings are written :name"


@pytest.mark.parametrize("name", ROW_TYPES)
def test_columns_of_a_select_are_the_fields_of_its_row(
    connection: apsw.Connection, name: str
) -> None:
    """Rows are built by position, so order and names must agree."""
    details = apsw.ext.query_info(connection, STATEMENTS[name])
    described = [column[0] for column in details.description]
    row_type = ROW_TYPES[name]
    assert described == list(column_names(row_type))
    assert issubclass(row_type, tuple) or row_type.__dataclass_params__.frozen
    assert "__slots__" in vars(row_type)


def check_list(table: str, column: str) -> list[str]:
    """Returns the members of a column's closed set, in the order of the schema."""
    start = DDL.index(f"CREATE TABLE {table} (")
    listed = re.compile(rf"\b{column}\s+TEXT[^,]*?CHECK \(\s*{column} IN \(([^)]*)\)")
    found = listed.search(DDL, start)
    assert found, f"{table}.{column}"
    return re.findall(r"'([^']*)'", found[1])


@pytest.mark.parametrize(
    ("table", "column", "enum"),
    [
        ("runs", "status", states.RunStatus),
        ("run_queue", "status", states.QueueStatus),
        ("node_attempts", "status", states.AttemptStatus),
        ("effects", "status", states.EffectStatus),
        ("effects", "owner_scope", states.EffectScope),
        ("effect_attempts", "outcome", states.EffectAttemptOutcome),
        ("run_workers", "status", states.WorkerStatus),
        ("worker_messages", "outcome", states.WorkerMessageOutcome),
        ("host_commands", "outcome", states.CommandOutcome),
        ("events", "actor_type", states.ActorType),
        ("workflow_setting_changes", "actor_type", states.ActorType),
        ("workflow_follow_ups", "actor_type", states.ActorType),
        ("leases", "owner_type", states.OwnerType),
        ("resources", "resource_type", states.ResourceType),
        ("run_bindings", "execution_mode", states.ExecutionMode),
        ("run_sources", "source_type", SourceKind),
    ],
)
def test_closed_set_of_a_column_is_the_enum_of_the_protocol(
    table: str, column: str, enum: type[StrEnum]
) -> None:
    """What can be stored can be read, and the other way round."""
    assert check_list(table, column) == [member.value for member in enum]


def test_no_statement_is_built() -> None:
    """SQL is a literal constant: no f-string, no concatenation, no formatting."""
    for module in modules():
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.AnnAssign | ast.Assign) and is_statement(module, node):
                assert isinstance(node.value, ast.Constant), ast.unparse(node)
            if isinstance(node, ast.Call) and called(node) in {"execute", "one", "many", "scalar"}:
                built = [arg for arg in node.args if isinstance(arg, ast.JoinedStr | ast.BinOp)]
                assert not built, ast.unparse(node)


def is_statement(module: ModuleType, node: ast.AnnAssign | ast.Assign) -> bool:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return isinstance(target, ast.Name) and f"{module.__name__}.{target.id}" in STATEMENTS


def called(node: ast.Call) -> str:
    """Returns the last part of what is called."""
    return ast.unparse(node.func).rpartition(".")[2]


def test_the_queue_is_read_in_its_order_from_one_index(connection: apsw.Connection) -> None:
    """However many runs wait for a person, an admission neither meets nor sorts them."""
    steps = apsw.ext.query_info(
        connection, run_queue.SELECT_CLAIMABLE, explain_query_plan=True
    ).query_plan
    assert steps is not None
    details = [step.detail for step in steps.sub or []]
    assert "SCAN q USING INDEX run_queue_admissible" in details
    assert not [detail for detail in details if "TEMP B-TREE" in detail]
