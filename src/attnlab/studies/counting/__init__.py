"""The histogram task: one small transformer, two ways to solve it, by places or by tokens."""
