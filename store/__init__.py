"""The truth: one SQLite file, its schema, and every function that reads or writes it."""
