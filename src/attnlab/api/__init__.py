"""The doors in Python, above all rooms: what the command line does, it does through these."""

from attnlab.api.running import Run, conclude, draw_pdf, planned, prepare, run

__all__ = ["Run", "conclude", "draw_pdf", "planned", "prepare", "run"]
