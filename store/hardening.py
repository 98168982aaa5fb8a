"""What every connection is denied before it reads a page: the file may come from anywhere.

None of it touches the file. What a command or a reader may *say* is the authorizer's business
(`store/database.py`); this is about what SQLite itself would do.
"""

from typing import Final

import apsw

_SWITCHES: Final = {
    apsw.SQLITE_DBCONFIG_DEFENSIVE: 1,  # No writes to the schema table, no journal_mode = OFF.
    apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA: 0,
    apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA: 0,
    apsw.SQLITE_DBCONFIG_DQS_DDL: 0,  # A misspelt name is an error, not a text.
    apsw.SQLITE_DBCONFIG_DQS_DML: 0,
    # The schema has neither; the shape is verified too, but only after the file was opened.
    apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_VIEW: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE: 0,
    # Plans that never look at values: else a join is compiled anew whenever one is bound.
    apsw.SQLITE_DBCONFIG_ENABLE_QPSG: 1,
}

_LIMITS: Final = {
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
    apsw.SQLITE_LIMIT_LENGTH: 512 * 1024 * 1024,  # Bytes of a value or row.
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,  # Bytes; the longest statement has a few thousand.
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 32,  # Bounds cascades of foreign keys as well.
}


def harden(connection: apsw.Connection) -> None:
    """Switch off what a crafted file or a stray statement could reach."""
    for switch, value in _SWITCHES.items():
        connection.config(switch, value)
    for limit, value in _LIMITS.items():
        connection.limit(limit, value)
    connection.pragma("cell_size_check", value=True)
    connection.pragma("temp_store", "MEMORY")
    connection.pragma("mmap_size", 0)
