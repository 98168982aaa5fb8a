"""Vocabulary shared by every process of the system; does no I/O and imports nothing of ours."""
