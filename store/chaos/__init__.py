"""What the chaos harness needs of SQLite and its disk; nothing in production imports this."""
