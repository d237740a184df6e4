"""Adapting a pretrained encoder: how to train it, with which optimizer, and how much of it."""
