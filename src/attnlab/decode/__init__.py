"""Text from a model: one token after the other."""
