"""Attention that picks one item: its gradients, and a look-up task learned with and without it."""
