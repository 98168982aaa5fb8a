"""Clients of the workflow server; the blocking half needs only the standard library."""
