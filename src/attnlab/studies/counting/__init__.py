"""The histogram task: one small transformer, two ways to solve it, by positions or by tokens."""
