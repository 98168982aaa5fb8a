"""Trio tasks that each own one thing and write only through the store actor."""
