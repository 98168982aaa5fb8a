"""State machines as tables: `(state, move) -> state`, pure, one file per machine."""
