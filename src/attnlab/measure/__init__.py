"""Numbers about numbers: pure functions, no state, no files."""
