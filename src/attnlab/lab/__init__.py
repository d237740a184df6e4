"""Declare a question, execute its trials, store and resume them."""
