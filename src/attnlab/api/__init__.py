"""The doors in Python, above all rooms: what the command line does, it does through these."""

from attnlab.api.conclude import conclude, draw_conclusions, draw_pdf
from attnlab.api.running import Run, plan, run

__all__ = ["Run", "conclude", "draw_conclusions", "draw_pdf", "plan", "run"]
