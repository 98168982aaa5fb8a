"""The disk under SQLite as the chaos harness sees it; nothing in production imports this."""
